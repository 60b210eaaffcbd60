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

#define UNROLLED _Pragma("GCC unroll 16")

/* Into callers with constant sizes, whose loops then unroll. */
#define INLINE static inline __attribute__((always_inline))

/* A function whose loads the compiler puts well before their use, for cores that run instructions in order: others do
 * not mind. */
#if defined(__aarch64__)
#define IN_ORDER __attribute__((target("tune=cortex-a53")))
#else
#define IN_ORDER
#endif

/* A single pixel's sums that do not wait for each other, each of some of the columns. */
#if defined(__aarch64__)
enum { WAYS = 2 };
#else
enum { WAYS = 4 };
#endif

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

#if defined(__aarch64__)
/* Keeps what computes a value, and loads, on their side of others of these. */
#define ORDERED(value) __asm__ volatile("" : "+w"(value) : : "memory")

/* Adds the products of LANES columns, from c on, to sums[pixels][registers], which are `stride` apart: one load of each
 * pixel's inputs x, multiplied by lane. Weights w, of column c, follow each other `row` apart from column to column; of
 * their registers, two or four, each `parts` are neighbours, and `block` apart from the next.
 *
 * A core that runs in order waits for a load that is used at once, and some for a load that follows a multiply-add: so all
 * weights of a column are loaded together, before the last two of the column before are multiplied. A single pixel has
 * registers enough for the compiler to load further ahead. */
INLINE void by_lane_add(lanes *sums, int stride, const float *const *x, uint32_t c, const float *w, int64_t row,
                        int64_t block, int parts, int pixels, int blocks) {
    const int registers = blocks * parts;
    lanes inputs[8], weight[4], next[4];
    UNROLLED for (int i = 0; i < registers; i++) next[i] = load(w + i / parts * block + i % parts * LANES);
    UNROLLED for (int p = 0; p < pixels; p++) inputs[p] = load(x[p] + c);
    UNROLLED for (int n = 0; n < LANES * registers; n += 2) {
        const int k = n / registers, first = n % registers;
        UNROLLED for (int i = 0; i < registers && first == 0; i++) weight[i] = next[i];
        UNROLLED for (int i = 0; i < registers && first == registers - 2 && k + 1 < LANES; i++) {
            next[i] = load(w + (k + 1) * row + i / parts * block + i % parts * LANES);
        }
        UNROLLED for (int i = first; i < first + 2 && pixels > 1; i++) ORDERED(weight[i]);
        UNROLLED for (int p = 0; p < 2 * pixels; p++) {
            lanes *sum = &sums[p / 2 * stride + first + p % 2];
            *sum += weight[first + p % 2] * inputs[p / 2][k];
            if (pixels > 1) ORDERED(*sum);
        }
        __asm__ volatile("" ::: "memory"); /* keeps further weights from being loaded before there are registers */
    }
}
#undef ORDERED
#endif

/* Of each `run` lanes of two registers the first half, a's before b's; with `more` run / 2 the second. */
#define PLACE(k, run, more) ((k) % (run) / ((run) / 2) * LANES + (k) / (run) * (run) + (k) % ((run) / 2) + (more))
#define PLACES(k, run, more) PLACE(k, run, more), PLACE(k + 1, run, more), PLACE(k + 2, run, more), PLACE(k + 3, run, more)
#if LANES == 16
#define ALL_PLACES(run, more) PLACES(0, run, more), PLACES(4, run, more), PLACES(8, run, more), PLACES(12, run, more)
#elif LANES == 8
#define ALL_PLACES(run, more) PLACES(0, run, more), PLACES(4, run, more)
#else
#define ALL_PLACES(run, more) PLACES(0, run, more)
#endif
#define FOLD(run)                                                               \
    UNROLLED for (int i = 0; i < (run) / 2; i++) {                              \
        lanes a = sums[i], b = sums[i + (run) / 2];                             \
        sums[i] = __builtin_shufflevector(a, b, ALL_PLACES(run, 0)) +           \
                  __builtin_shufflevector(a, b, ALL_PLACES(run, (run) / 2));    \
    }

/* Sums the lanes of LANES registers, in their order: by pairs, in a third of the steps that one after the other takes. */
INLINE lanes lanes_sums(lanes sums[LANES]) {
#if LANES == 16
    FOLD(16)
#endif
#if LANES >= 8
    FOLD(8)
#endif
    FOLD(4)
    FOLD(2)
    return sums[0];
}
#undef FOLD
#undef ALL_PLACES
#undef PLACES
#undef PLACE

#endif
