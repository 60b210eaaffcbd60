/* Registers of LANES floats, which whoever includes this has defined. Without state. */
#ifndef RT_CPU_VECTOR_H
#define RT_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef LANES /* the header alone */
#define LANES 4
#endif

/* A register of floats, and of the all-or-nothing bits that comparing two makes. */
typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef int32_t mask __attribute__((vector_size(LANES * 4)));

/* Into callers with constant sizes, whose loops then unroll. */
#define INLINE static inline __attribute__((always_inline))

/* From and to any address: no more alignment than a float has. */
INLINE lanes load(const float *source) {
    lanes value;
    memcpy(&value, source, sizeof value);
    return value;
}

INLINE void store(float *target, lanes value) { memcpy(target, &value, sizeof value); }

/* Lane by lane: `yes` where the mask is set, else `no`. */
INLINE lanes choose(mask where, lanes yes, lanes no) { return (lanes)((where & (mask)yes) | (~where & (mask)no)); }

/* The greater and the smaller of each lane; of a NaN the second operand as x86's instructions have it, or the NaN as
 * ARM's. */
INLINE lanes lanes_max(lanes a, lanes b) {
#if LANES == 16
    return (lanes)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (lanes)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__aarch64__)
    return (lanes)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return choose(a > b, a, b);
#endif
}

INLINE lanes lanes_min(lanes a, lanes b) {
#if LANES == 16
    return (lanes)_mm512_min_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (lanes)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__aarch64__)
    return (lanes)vminq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return choose(a < b, a, b);
#endif
}

/* Each lane within its bounds; a NaN stays a NaN. */
INLINE lanes clamp(lanes value, lanes low, lanes high) { return lanes_min(high, lanes_max(low, value)); }

#endif
