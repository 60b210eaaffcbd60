/* Which of the innermost loops this CPU can run. cpu_tile.c is compiled once for each instruction set; code of a set
 * may be called only where the CPU has its instructions and the system saves its registers. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "cpu_tile.h"

extern const rt_tile_kernels rt_tile_kernels_generic;

/* Loops, and whether the CPU and the system allow them. */
typedef struct {
    const rt_tile_kernels *kernels;
    bool allowed;
} set;

#if defined(__x86_64__)
#include <cpuid.h>

extern const rt_tile_kernels rt_tile_kernels_avx2, rt_tile_kernels_avxvnni;
extern const rt_tile_kernels rt_tile_kernels_avx512, rt_tile_kernels_avx512vnni;

/* Intel's manual, volume 1, 14.7 and 15.2: bits of cpuid's answers, and of the registers that the system saves. */
enum { LEAF_1_ECX_FMA = 1 << 12, LEAF_1_ECX_F16C = 1 << 29, LEAF_1_ECX_OSXSAVE = 1 << 27, LEAF_7_EBX_AVX2 = 1 << 5 };
enum { LEAF_7_ECX_AVX512_VNNI = 1 << 11, LEAF_7_1_EAX_AVX_VNNI = 1 << 4, SAVED_AVX = 0x06, SAVED_AVX512 = 0xE6 };
static const uint32_t LEAF_7_EBX_AVX512F_DQ_BW_VL = 3u << 30 | 3u << 16;

/* XCR0; only where cpuid says OSXSAVE. */
static uint32_t saved_registers(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

enum { SETS = 5 };

/* Those of this CPU, the best one first; none but the generic one where CPU or system are too old to tell. */
static void sets_read(set sets[SETS]) {
    uint32_t a, b, c, d, more_b, more_c, last_a = 0;
    bool avx2 = false, avx512 = false, avxvnni = false, avx512vnni = false;
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & LEAF_1_ECX_OSXSAVE) && (c & LEAF_1_ECX_FMA) &&
        (c & LEAF_1_ECX_F16C) &&        __get_cpuid_count(7, 0, &a, &more_b, &more_c, &d)) {
        uint32_t saved = saved_registers();
        if (a >= 1) __get_cpuid_count(7, 1, &last_a, &b, &c, &d);
        avx2 = (saved & SAVED_AVX) == SAVED_AVX && (more_b & LEAF_7_EBX_AVX2);
        avxvnni = avx2 && (last_a & LEAF_7_1_EAX_AVX_VNNI);
        bool is_whole = (more_b & LEAF_7_EBX_AVX512F_DQ_BW_VL) == LEAF_7_EBX_AVX512F_DQ_BW_VL;
        avx512 = avx2 && is_whole && (saved & SAVED_AVX512) == SAVED_AVX512;
        avx512vnni = avx512 && (more_c & LEAF_7_ECX_AVX512_VNNI);
    }
    sets[0] = (set){&rt_tile_kernels_avx512vnni, avx512vnni};
    sets[1] = (set){&rt_tile_kernels_avx512, avx512};
    sets[2] = (set){&rt_tile_kernels_avxvnni, avxvnni};
    sets[3] = (set){&rt_tile_kernels_avx2, avx2};
    sets[4] = (set){&rt_tile_kernels_generic, true};
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

extern const rt_tile_kernels rt_tile_kernels_fp16, rt_tile_kernels_dotprod, rt_tile_kernels_i8mm;

/* asm/hwcap.h: HWCAP_ASIMDHP, HWCAP_ASIMDDP, HWCAP2_I8MM */
enum { SETS = 4, HAS_HALVES = 1 << 10, HAS_DOT_PRODUCTS = 1 << 20, HAS_MATRIX_PRODUCTS = 1 << 13 };

bool rt_cpu_has_halves(void) { return (getauxval(AT_HWCAP) & HAS_HALVES) != 0; }

static void sets_read(set sets[SETS]) {
    bool dots = (getauxval(AT_HWCAP) & HAS_DOT_PRODUCTS) != 0;
    sets[0] = (set){&rt_tile_kernels_i8mm, dots && (getauxval(AT_HWCAP2) & HAS_MATRIX_PRODUCTS) != 0};
    sets[1] = (set){&rt_tile_kernels_dotprod, dots};
    sets[2] = (set){&rt_tile_kernels_fp16, rt_cpu_has_halves()};
    sets[3] = (set){&rt_tile_kernels_generic, true};
}
#else
enum { SETS = 1 };

static void sets_read(set sets[SETS]) { sets[0] = (set){&rt_tile_kernels_generic, true}; }
#endif

#if !defined(__aarch64__)
bool rt_cpu_has_halves(void) { return false; }
#endif

const rt_tile_kernels *rt_tile_kernels_choose(const char *name) {
    set sets[SETS];
    sets_read(sets);
    for (int i = 0; i < SETS; i++) {
        bool is_wanted = name == NULL || strcmp(name, sets[i].kernels->name) == 0;
        if (is_wanted && sets[i].allowed) return sets[i].kernels;
    }
    return NULL;
}
