/* The instruction that sums products of eight bits, and how tiles are summed with it: bytes for one that sums four products
 * in a lane (VNNI, SDOT) or eight for two pixels and lanes (I8MM), else 16 bits for one that sums two (x86) or widens (the
 * rest). None of them saturates; with RT_PAIRS AVX2's sum of two products of bytes would, but for weights that never let it
 * (RT_BYTES_PAIRS). Without state. */
#ifndef RT_CPU_LANES_QUADS_H
#define RT_CPU_LANES_QUADS_H

#include "cpu_lanes_bytes.h"

/* PARTIALS: sums that each lane has, which are added up at the end. SIGNED: inputs are multiplied as u - 128. PIXELS x
 * REGISTERS of sums fill the registers but for those of weights and inputs. */
#if defined(__AVX512VNNI__) && LANES == 16
#define DOT 1
#define PIXELS 6
#define REGISTERS 4
#elif defined(__AVXVNNI__)
#define DOT 1
#define PIXELS 6
#define REGISTERS 2
#elif defined(RT_PAIRS)
#define DOT 1
#define PIXELS 6
#define REGISTERS 2
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#define DOT 1
#define PIXELS 6
#define REGISTERS 4
#elif defined(__ARM_FEATURE_DOTPROD)
#define DOT 1
#define SIGNED 1
#define PIXELS 5
#define REGISTERS 4
#elif defined(__SSE2__)
#define PARTIALS 2
#define PIXELS (RT_BLOCK * 2 / LANES <= 2 ? 6 : RT_BLOCK * 2 / LANES <= 4 ? 3 : 1)
#define REGISTERS (RT_BLOCK * 2 / LANES)
#else
#define PARTIALS 4
#define PIXELS (RT_BLOCK == 8 ? 3 : 1)
#define REGISTERS RT_BLOCK
#endif
#ifdef DOT
#define PARTIALS 1
typedef uint8_t element;
#else
typedef int16_t element;
#endif

enum {
    TILE_PIXELS = PIXELS,
    SHARE = LANES / PARTIALS,        /* lanes that a register of sums serves */
    PARTS_OF_SUMS = RT_BLOCK / SHARE, /* registers of sums of a block */
    GROUP = REGISTERS / PARTS_OF_SUMS, /* blocks that are summed at once */
    PASS = 256 / RT_BLOCK,           /* blocks that pass over inputs which were brought together once */
    CROSSED = LANES == 8 && PARTIALS == 2, /* order of lanes of sums (crossed) */
#ifdef __ARM_FEATURE_MATMUL_INT8
    IN_PAIRS = true,                 /* sums are of two pixels */
#else
    IN_PAIRS = false,
#endif
    CHUNK = 512,                     /* channels of taps that are brought together at once */
    ROW = CHUNK + RT_BLOCK
};

#ifdef DOT

/* The weights of SHARE lanes, as they are multiplied. */
typedef ints weight_register;

INLINE weight_register weights_load(const int8_t *w) {
    weight_register value;
    memcpy(&value, w, sizeof value);
    return value;
}

/* A quad of inputs in every lane. */
INLINE ints quad_load(const element *x) {
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return (ints){0} + quad;
}

INLINE ints products_add(ints sum, ints x, weight_register w) {
#if LANES == 16
    return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#elif defined(RT_PAIRS)
    const __m256i pairs_of_sums = _mm256_maddubs_epi16((__m256i)x, (__m256i)w);
    return sum + (ints)_mm256_madd_epi16(pairs_of_sums, _mm256_set1_epi16(1));
#elif LANES == 8
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
#else
    return (ints)vdotq_s32((int32x4_t)sum, (int8x16_t)x, (int8x16_t)w);
#endif
}
#elif defined(__SSE2__)

/* The same, widened. */
typedef int16_t weight_register __attribute__((vector_size(LANES * 4)));

INLINE weight_register weights_load(const int8_t *w) {
#if LANES == 8
    return (weight_register)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)w));
#else
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)w);
    return (weight_register)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
#endif
}

INLINE ints quad_load(const element *x) {
    typedef int64_t quads __attribute__((vector_size(LANES * 4)));
    int64_t quad;
    memcpy(&quad, x, sizeof quad);
    return (ints)((quads){0} + quad);
}

#if LANES == 8
#define WIDENS 1

/* Widened ones. */
INLINE weight_register words_load(const int16_t *w) { return (weight_register)load((const float *)(const void *)w); }
#endif

INLINE ints products_add(ints sum, ints x, weight_register w) {
#if LANES == 8
    return sum + (ints)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#else
    return sum + (ints)_mm_madd_epi16((__m128i)x, (__m128i)w);
#endif
}
#else

/* The same. */
typedef ints weight_register;

/* Inputs as they are brought together. */
typedef int16_t half_ints __attribute__((vector_size(LANES * 2)));

INLINE weight_register weights_load(const int8_t *w) {
    typedef int8_t quarter_ints __attribute__((vector_size(LANES)));
    quarter_ints value;
    memcpy(&value, w, sizeof value);
    return __builtin_convertvector(__builtin_convertvector(value, half_ints), ints);
}

INLINE ints quad_load(const element *x) {
    half_ints value;
    memcpy(&value, x, sizeof value);
    return __builtin_convertvector(value, ints);
}

INLINE ints products_add(ints sum, ints x, weight_register w) { return sum + x * w; }
#endif

/* The sums of LANES lanes, from their parts on. */
INLINE ints totals(const ints *sum) {
#if PARTIALS == 1
    return *sum;
#elif PARTIALS == 2 && LANES == 8
    return (ints)_mm256_hadd_epi32((__m256i)sum[0], (__m256i)sum[1]); /* CROSSED */
#elif PARTIALS == 2
    __m128 first = (__m128)sum[0], second = (__m128)sum[1];
    return (ints)_mm_shuffle_ps(first, second, 0x88) + (ints)_mm_shuffle_ps(first, second, 0xDD);
#else
    ints made;
    UNROLLED for (int i = 0; i < LANES; i++) made[i] = sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
    return made;
#endif
}

#ifdef __ARM_FEATURE_MATMUL_INT8
/* Pixel by pixel what lies in pairs of pixels. */
INLINE void sums_part(ints sum[PIXELS][REGISTERS], int pixels, int registers) {
    UNROLLED for (int p = 0; p < pixels; p += 2) {
        UNROLLED for (int i = 0; i < registers; i++) {
            int64x2_t first = (int64x2_t)sum[p][i], second = (int64x2_t)sum[p + 1][i];
            sum[p][i] = (ints)vzip1q_s64(first, second);
            sum[p + 1][i] = (ints)vzip2q_s64(first, second);
        }
    }
}
#else
/* Nothing: they lie so. */
INLINE void sums_part(ints sum[PIXELS][REGISTERS], int pixels, int registers) { (void)sum, (void)pixels, (void)registers; }
#endif

#endif
