/* Which loops serve a blocked operator, and what their checks share. */
#include <string.h>

#include "arithmetic.h"
#include "cpu_blocked.h"

#define RT_BLOCKED_SET(isa) extern const rt_blocked_kernels rt_blocked_kernels_##isa##_8, rt_blocked_kernels_##isa##_16;
RT_BLOCKED_SET(generic)
#if defined(__x86_64__)
RT_BLOCKED_SET(avx2)
extern const rt_blocked_kernels rt_blocked_kernels_avx512_16;
#endif
#undef RT_BLOCKED_SET

const rt_blocked_kernels *rt_blocked_kernels_of(const rt_tile_kernels *tiles, uint32_t block) {
#if defined(__x86_64__)
    bool avx512 = strcmp(tiles->name, "avx512") == 0, avx2 = avx512 || strcmp(tiles->name, "avx2") == 0;
    if (avx512 && block == 16) return &rt_blocked_kernels_avx512_16;
    if (avx2) return block == 8 ? &rt_blocked_kernels_avx2_8 : &rt_blocked_kernels_avx2_16;
#else
    (void)tiles;
#endif
    return block == 8 ? &rt_blocked_kernels_generic_8 : &rt_blocked_kernels_generic_16;
}

bool rt_block_is_known(const rt_cpu_call *call) { return call->codes.block == 8 || call->codes.block == 16; }

uint64_t rt_blocked_elements(uint64_t images, uint64_t channels, uint64_t pixels, uint32_t block) {
    return rt_product(rt_product(images, rt_ceil_div(channels, block)), rt_product(pixels, block));
}
