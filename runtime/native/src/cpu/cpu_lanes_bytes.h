/* Registers of integers from bytes, and results to bytes: what the loops over blocked tensors of eight bits share. Without
 * state. */
#ifndef RT_CPU_LANES_BYTES_H
#define RT_CPU_LANES_BYTES_H

#include "cpu_lanes.h"
#include "cpu_quantized.h"

/* A register of integers, and the bytes that these are made of. */
typedef int32_t ints __attribute__((vector_size(LANES * 4)));
typedef uint8_t bytes __attribute__((vector_size(LANES)));

/* Whole numbers of bytes. */
INLINE ints integers_load(const uint8_t *source) {
#if LANES == 16
    return (ints)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)source));
#elif LANES == 8
    return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)source));
#else
    bytes value;
    memcpy(&value, source, sizeof value);
    return __builtin_convertvector(value, ints);
#endif
}

/* The same as floats. */
INLINE lanes bytes_load(const uint8_t *source) { return __builtin_convertvector(integers_load(source), lanes); }

/* Rounds to the nearest whole number, of two the even one, and stores it less `low`; v is within 2^22. */
INLINE void bytes_store(uint8_t *target, lanes v, int32_t low) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: the last bit of a sum with it counts ones */
    ints whole = (ints)(v + shift) - (0x4B400000 + low);
#if LANES == 16
    _mm_storeu_si128((__m128i *)(void *)target, _mm512_cvtepi32_epi8((__m512i)whole));
#elif LANES == 8
    __m256i wide = (__m256i)whole;
    __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64((__m128i *)(void *)target, _mm_packus_epi16(half, half));
#else
    bytes value = __builtin_convertvector(whole, bytes);
    memcpy(target, &value, sizeof value);
#endif
}

/* Completes LANES results that lie at `place`. `v`: with scale and bias. */
INLINE void result_store(const rt_quantized_end *end, lanes v, int64_t place, lanes low, lanes high) {
    if (end->residual != NULL) {
        lanes residual = end->bytes & RT_BYTES_RESIDUAL ? bytes_load((const uint8_t *)end->residual + place)
                                                        : load((const float *)end->residual + place);
        v += residual * end->residual_scale;
    }
    v = clamp(v, low, high);
    if (end->bytes & RT_BYTES_OUTPUT) {
        bytes_store((uint8_t *)end->y + place, v, (int32_t)end->a);
    } else {
        store((float *)end->y + place, v);
    }
}

/* The lower bound of results. */
INLINE lanes least(const rt_quantized_end *end) {
    return (lanes){0} + (end->bytes & RT_BYTES_OUTPUT ? end->a : lower_bound(end->activation, end->a)[0]);
}

/* The upper bound of results. */
INLINE lanes most(const rt_quantized_end *end) {
    return (lanes){0} + (end->bytes & RT_BYTES_OUTPUT ? end->b : upper_bound(end->activation, end->b)[0]);
}

#endif
