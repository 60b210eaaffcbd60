#include "cpu_tile.h"

extern const rt_tile_kernels rt_tile_kernels_generic;

#if defined(__x86_64__)
extern const rt_tile_kernels rt_tile_kernels_avx2;
extern const rt_tile_kernels rt_tile_kernels_avx512;
#endif

static bool is_wanted(const rt_tile_kernels *kernels, const char *name) {
    return name == NULL || strcmp(name, kernels->name) == 0;
}

const rt_tile_kernels *rt_tile_kernels_choose(const char *name) {
#if defined(__x86_64__)
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f");
    if (has_avx512 && is_wanted(&rt_tile_kernels_avx512, name)) return &rt_tile_kernels_avx512;
    if (has_avx2 && is_wanted(&rt_tile_kernels_avx2, name)) return &rt_tile_kernels_avx2;
#endif
    return is_wanted(&rt_tile_kernels_generic, name) ? &rt_tile_kernels_generic : NULL;
}
