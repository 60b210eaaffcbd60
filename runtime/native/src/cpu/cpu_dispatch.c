/* Which of the innermost loops this CPU can run. cpu_tile.c is compiled once for each instruction set; code of a set
 * may be called only where the CPU has its instructions and the system saves its registers. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "cpu_tile.h"

extern const rt_tile_kernels rt_tile_kernels_generic;

#if defined(__x86_64__)
#include <cpuid.h>

extern const rt_tile_kernels rt_tile_kernels_avx2;
extern const rt_tile_kernels rt_tile_kernels_avx512;

/* Intel's manual, volume 1, 14.7 and 15.2: bits of cpuid's answers, and of the registers that the system saves. */
enum { LEAF_1_ECX_FMA = 1 << 12, LEAF_1_ECX_OSXSAVE = 1 << 27, LEAF_7_EBX_AVX2 = 1 << 5, LEAF_7_EBX_AVX512F = 1 << 16 };
enum { SAVED_AVX = 0x06, SAVED_AVX512 = 0xE6 };

/* Those beyond the generic one. */
typedef struct {
    bool avx2, avx512;
} instruction_sets;

/* XCR0; only where cpuid says OSXSAVE. */
static uint32_t saved_registers(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* What the CPU and the system allow together; none where either is too old to tell. */
static instruction_sets instruction_sets_read(void) {
    uint32_t a, b, c, d, leaf_7_b;
    instruction_sets sets = {false, false};
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & LEAF_1_ECX_OSXSAVE) || !(c & LEAF_1_ECX_FMA)) return sets;
    uint32_t saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &a, &leaf_7_b, &c, &d)) return sets;
    sets.avx2 = (saved & SAVED_AVX) == SAVED_AVX && (leaf_7_b & LEAF_7_EBX_AVX2);
    sets.avx512 = sets.avx2 && (saved & SAVED_AVX512) == SAVED_AVX512 && (leaf_7_b & LEAF_7_EBX_AVX512F);
    return sets;
}
#endif

/* Whether these loops are of the instruction set of that name; NULL wants any. */
static bool is_wanted(const rt_tile_kernels *kernels, const char *name) {
    return name == NULL || strcmp(name, kernels->name) == 0;
}

const rt_tile_kernels *rt_tile_kernels_choose(const char *name) {
#if defined(__x86_64__)
    instruction_sets sets = instruction_sets_read();
    if (sets.avx512 && is_wanted(&rt_tile_kernels_avx512, name)) return &rt_tile_kernels_avx512;
    if (sets.avx2 && is_wanted(&rt_tile_kernels_avx2, name)) return &rt_tile_kernels_avx2;
#endif
    return is_wanted(&rt_tile_kernels_generic, name) ? &rt_tile_kernels_generic : NULL;
}
