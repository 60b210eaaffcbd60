/* Which loops serve a blocked operator, and what their checks share. */
#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "cpu_blocked.h"
#include "cpu_half.h"
#include "cpu_quantized.h"

#define RT_BLOCKED_SET(isa) extern const rt_blocked_kernels rt_blocked_kernels_##isa##_8, rt_blocked_kernels_##isa##_16;
#define RT_QUANTIZED_SET(isa) \
    extern const rt_quantized_kernels rt_quantized_kernels_##isa##_8, rt_quantized_kernels_##isa##_16;
RT_BLOCKED_SET(generic)
RT_QUANTIZED_SET(generic)
#if defined(__x86_64__)
RT_BLOCKED_SET(avx2)
RT_QUANTIZED_SET(avx2)
RT_QUANTIZED_SET(avx2pairs)
RT_QUANTIZED_SET(avxvnni)
extern const rt_blocked_kernels rt_blocked_kernels_avx512_16;
extern const rt_quantized_kernels rt_quantized_kernels_avx512vnni_16;
#elif defined(__aarch64__)
RT_QUANTIZED_SET(dotprod)
RT_QUANTIZED_SET(i8mm)
extern const rt_half_kernels rt_half_kernels_fp16_8, rt_half_kernels_fp16_16;
#endif
#undef RT_BLOCKED_SET
#undef RT_QUANTIZED_SET

#if defined(__x86_64__) || defined(__aarch64__)
/* Whether the instruction set of `tiles` is one, or extends it. */
static bool is_of(const rt_tile_kernels *tiles, const char *set) { return strncmp(tiles->name, set, strlen(set)) == 0; }
#endif

const rt_blocked_kernels *rt_blocked_kernels_of(const rt_tile_kernels *tiles, uint32_t block) {
#if defined(__x86_64__)
    if (is_of(tiles, "avx512") && block == 16) return &rt_blocked_kernels_avx512_16;
    if (is_of(tiles, "avx")) return block == 8 ? &rt_blocked_kernels_avx2_8 : &rt_blocked_kernels_avx2_16;
#else
    (void)tiles;
#endif
    return block == 8 ? &rt_blocked_kernels_generic_8 : &rt_blocked_kernels_generic_16;
}

const rt_quantized_kernels *rt_quantized_kernels_of(const rt_tile_kernels *tiles, uint32_t block, uint32_t bytes) {
    (void)bytes;
#if defined(__x86_64__)
    if (is_of(tiles, "avx512vnni") && block == 16) return &rt_quantized_kernels_avx512vnni_16;
    if (is_of(tiles, "avxvnni")) return block == 8 ? &rt_quantized_kernels_avxvnni_8 : &rt_quantized_kernels_avxvnni_16;
    if (is_of(tiles, "avx") && (bytes & RT_BYTES_PAIRS))
        return block == 8 ? &rt_quantized_kernels_avx2pairs_8 : &rt_quantized_kernels_avx2pairs_16;
    if (is_of(tiles, "avx")) return block == 8 ? &rt_quantized_kernels_avx2_8 : &rt_quantized_kernels_avx2_16;
#elif defined(__aarch64__)
    if (is_of(tiles, "i8mm")) return block == 8 ? &rt_quantized_kernels_i8mm_8 : &rt_quantized_kernels_i8mm_16;
    if (is_of(tiles, "dotprod")) return block == 8 ? &rt_quantized_kernels_dotprod_8 : &rt_quantized_kernels_dotprod_16;
#else
    (void)tiles;
#endif
    return block == 8 ? &rt_quantized_kernels_generic_8 : &rt_quantized_kernels_generic_16;
}

const rt_half_kernels *rt_half_kernels_of(const rt_tile_kernels *tiles, uint32_t block) {
#if defined(__aarch64__)
    if (!is_of(tiles, "generic") && rt_cpu_has_halves()) return block == 8 ? &rt_half_kernels_fp16_8 : &rt_half_kernels_fp16_16;
#else
    (void)tiles, (void)block;
#endif
    return NULL;
}

enum { PADDED_ALIGNMENT = 64 };

rt_padded_rows rt_padded_rows_of(const rt_blocked_window *w) {
    uint64_t span = (uint64_t)(w->k_h - 1) * (uint64_t)w->dil_h + 1, height = (uint64_t)w->in_h;
    uint64_t columns = (uint64_t)(w->k_w - 1) * (uint64_t)w->dil_w + 1;
    return (rt_padded_rows){
        .pointer_bytes = rt_ceil_div((uint64_t)w->k_h * sizeof(void *), PADDED_ALIGNMENT) * PADDED_ALIGNMENT,
        .rows = span < height ? span : height,
        .width = (uint64_t)(w->out_w - 1) * (uint64_t)w->stride_w + columns,
    };
}

uint64_t rt_padded_rows_bytes(const rt_blocked_window *window, uint32_t block) {
    rt_padded_rows size = rt_padded_rows_of(window);
    return rt_sum(size.pointer_bytes, rt_product(rt_product(size.rows + 1, size.width), block * sizeof(float)));
}

/* Pixels of a plane from which on it is divided, as convolutions divide such an image, and of a turn. */
enum { DIVIDED_PIXELS = 400, PIXELS_PER_TURN = 784 };

rt_plane_turns rt_plane_turns_divide(const rt_workers *workers, int64_t planes, int64_t height, int64_t width) {
    uint64_t count = rt_workers_count(workers), pixels = (uint64_t)height * (uint64_t)width;
    uint64_t turns = pixels < DIVIDED_PIXELS ? 1 : rt_ceil_div(rt_ceil_div(pixels, PIXELS_PER_TURN), count) * count;
    rt_plane_turns all = {.planes = planes, .rows = height};
    all.rows_per_turn = (int64_t)rt_ceil_div((uint64_t)height, turns);
    all.turns_per_plane = (int64_t)rt_ceil_div((uint64_t)height, (uint64_t)all.rows_per_turn);
    return all;
}

rt_plane_turn rt_plane_turn_at(const rt_plane_turns *all, uint32_t turn) {
    rt_plane_turn own = {.plane = turn % all->planes, .first_row = turn / all->planes * all->rows_per_turn};
    int64_t end = own.first_row + all->rows_per_turn;
    own.end_row = end < all->rows ? end : all->rows;
    return own;
}

bool rt_block_is_known(const rt_cpu_call *call) { return call->codes.block == 8 || call->codes.block == 16; }

uint64_t rt_blocked_elements(uint64_t images, uint64_t channels, uint64_t pixels, uint32_t block) {
    return rt_product(rt_product(images, rt_ceil_div(channels, block)), rt_product(pixels, block));
}
