/* Intel's SHA extensions (Software Developer's Manual, volume 1, 5.18) and ARMv8's (Architecture Reference Manual, A2.3).
 * Both run four rounds at a time on two vectors of state, and have instructions for the message schedule. */
#include "sha256_blocks.h"

#include <stdbool.h>

enum { BLOCK = 64, GROUPS = 16 }; /* of four rounds each */

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define WITH_SHA __attribute__((target("sha,sse4.1")))

enum { LEAF_1_ECX_SSE41 = 1 << 19, LEAF_7_EBX_SHA = 1 << 29 };

/* Words 4g to 4g+3 of the schedule from the sixteen before them, the oldest first. */
WITH_SHA static __m128i schedule_next(__m128i w0, __m128i w1, __m128i w2, __m128i w3) {
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
    return _mm_sha256msg2_epu32(sum, w3);
}

/* The instructions want the state as ABEF and CDGH, the highest word first. */
WITH_SHA static void x86_blocks(uint32_t state[8], const uint8_t *blocks, size_t count) {
    const __m128i reversed = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const __m128i *)state), hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1), efgh = _mm_shuffle_epi32(hgfe, 0x1B);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
    for (; count > 0; count--, blocks += BLOCK) {
        __m128i abef_before = abef, cdgh_before = cdgh, w[GROUPS];
        for (int g = 0; g < GROUPS; g++) {
            if (g < 4) {
                w[g] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)blocks + g), reversed);
            } else {
                w[g] = schedule_next(w[g - 4], w[g - 3], w[g - 2], w[g - 1]);
            }
            const __m128i *constants = (const __m128i *)rt_sha256_constants;
            __m128i addend = _mm_add_epi32(w[g], _mm_loadu_si128(constants + g));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, addend);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(addend, 0x0E));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

rt_sha256_blocks *rt_sha256_blocks_native(void) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & LEAF_1_ECX_SSE41)) return NULL;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & LEAF_7_EBX_SHA)) return NULL;
    return x86_blocks;
}

/* Older clang offers these intrinsics only where the whole file is compiled for them. */
#elif defined(__aarch64__) && defined(__linux__) && (!defined(__clang__) || __clang_major__ >= 16)
#include <arm_neon.h>
#include <sys/auxv.h>

#if defined(__clang__)
#define WITH_SHA __attribute__((target("sha2")))
#else
#define WITH_SHA __attribute__((target("+crypto")))
#endif

enum { CPU_HAS_SHA2 = 1 << 6 }; /* AT_HWCAP of Linux on arm64 */

WITH_SHA static void arm_blocks(uint32_t state[8], const uint8_t *blocks, size_t count) {
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; count > 0; count--, blocks += BLOCK) {
        uint32x4_t abcd_before = abcd, efgh_before = efgh, w[GROUPS];
        for (int g = 0; g < GROUPS; g++) {
            if (g < 4) {
                w[g] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 16 * g)));
            } else {
                w[g] = vsha256su1q_u32(vsha256su0q_u32(w[g - 4], w[g - 3]), w[g - 2], w[g - 1]);
            }
            uint32x4_t addend = vaddq_u32(w[g], vld1q_u32(rt_sha256_constants + 4 * g)), abcd_now = abcd;
            abcd = vsha256hq_u32(abcd, efgh, addend);
            efgh = vsha256h2q_u32(efgh, abcd_now, addend);
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}

rt_sha256_blocks *rt_sha256_blocks_native(void) { return getauxval(AT_HWCAP) & CPU_HAS_SHA2 ? arm_blocks : NULL; }

#else

rt_sha256_blocks *rt_sha256_blocks_native(void) { return NULL; }

#endif
