/* Registers of integers from bytes, and results to bytes: what the loops over blocked tensors of eight bits share. Without
 * state. */
#ifndef RT_CPU_LANES_BYTES_H
#define RT_CPU_LANES_BYTES_H

#include "cpu_lanes.h"
#include "cpu_quantized.h"

#if LANES >= 8 && defined(__FMA__)
#define FINE_FLOATS 1
#endif

/* Registers of results that are stored together, at most. */
enum { MOST_TOGETHER = 6 };

/* A function that is there once in the code, whatever its callers know. */
#ifdef __clang__
#define APART static __attribute__((noinline, unused))
#else
#define APART static __attribute__((noinline, noclone, unused))
#endif

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

/* The sum of all lanes. */
INLINE int32_t integers_total(ints v) {
#if LANES == 16
    return _mm512_reduce_add_epi32((__m512i)v);
#elif defined(__aarch64__)
    return vaddvq_s32((int32x4_t)v);
#else
    int32_t total = 0;
    UNROLLED for (int i = 0; i < LANES; i++) total += v[i];
    return total;
#endif
}

/* The same as floats. */
INLINE lanes bytes_load(const uint8_t *source) { return __builtin_convertvector(integers_load(source), lanes); }

/* The bytes of a block, less their zero point, as floats. */
INLINE void block_widen(const uint8_t *source, uint8_t zero, float *target) {
#if defined(__aarch64__)
    UNROLLED for (int i = 0; i < RT_BLOCK; i += 8) {
        int16x8_t wide = vreinterpretq_s16_u16(vsubl_u8(vld1_u8(source + i), vdup_n_u8(zero)));
        store(target + i, (lanes)vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))));
        store(target + i + LANES, (lanes)vcvtq_f32_s32(vmovl_high_s16(wide)));
    }
#else
    const float less = zero;
    UNROLLED for (int i = 0; i < RT_BLOCK; i += LANES) store(target + i, bytes_load(source + i) - less);
#endif
}

/* Stores whole numbers of 0 to 255 as bytes. */
INLINE void integers_store(uint8_t *target, ints whole) {
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

/* The nearest whole numbers, of two the even ones; v is within 2^22 where no instruction rounds. */
INLINE ints rounded(lanes v) {
#if defined(__aarch64__)
    return (ints)vcvtnq_s32_f32((float32x4_t)v);
#elif LANES == 16
    return (ints)_mm512_cvtps_epi32((__m512)v);
#elif LANES == 8 && defined(__AVX2__)
    return (ints)_mm256_cvtps_epi32((__m256)v);
#else
    return (ints)(v + 12582912.0f) - 0x4B400000; /* 1.5 * 2^23: the last bit of a sum with it counts ones */
#endif
}

/* Rounds and stores them less `low`. */
INLINE void bytes_store(uint8_t *target, lanes v, int32_t low) { integers_store(target, rounded(v) - low); }

/* --- fixed point --- */

/* Each lane within its bounds. */
INLINE ints integers_clamp(ints v, ints low, ints high) {
#if LANES == 16
    return (ints)_mm512_min_epi32((__m512i)high, _mm512_max_epi32((__m512i)low, (__m512i)v));
#elif LANES == 8 && defined(__AVX2__)
    return (ints)_mm256_min_epi32((__m256i)high, _mm256_max_epi32((__m256i)low, (__m256i)v));
#elif defined(__aarch64__)
    return (ints)vminq_s32((int32x4_t)high, vmaxq_s32((int32x4_t)low, (int32x4_t)v));
#else
    v = ((v < low) & low) | ((v >= low) & v);
    return ((v > high) & high) | ((v <= high) & v);
#endif
}

/* a * b / 2^31, halves rounded upwards. */
INLINE ints high_product(ints a, ints b) {
#if LANES == 16
    const __m512i half = _mm512_set1_epi64(1 << 30);
    __m512i even = _mm512_add_epi64(_mm512_mul_epi32((__m512i)a, (__m512i)b), half);
    __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64((__m512i)a, 32), _mm512_srli_epi64((__m512i)b, 32));
    odd = _mm512_slli_epi64(_mm512_add_epi64(odd, half), 1);
    return (ints)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 31), odd);
#elif LANES == 8 && defined(__AVX2__)
    const __m256i half = _mm256_set1_epi64x(1 << 30);
    __m256i even = _mm256_add_epi64(_mm256_mul_epi32((__m256i)a, (__m256i)b), half);
    __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64((__m256i)a, 32), _mm256_srli_epi64((__m256i)b, 32));
    odd = _mm256_slli_epi64(_mm256_add_epi64(odd, half), 1);
    return (ints)_mm256_blend_epi32(_mm256_srli_epi64(even, 31), odd, 0xAA);
#elif defined(__aarch64__)
    return (ints)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
#else
    ints made;
    for (int i = 0; i < LANES; i++) made[i] = (int32_t)(((int64_t)a[i] * b[i] + (1 << 30)) >> 31);
    return made;
#endif
}

/* v * multiplier * 2^(shift - 31); the product, then what is shifted to the right, of halves away from zero, is rounded. */
INLINE ints fixed_product(ints v, ints multiplier, ints shift) {
#if defined(__aarch64__)
    const int32x4_t zero = vdupq_n_s32(0), left = vmaxq_s32((int32x4_t)shift, zero), right = vminq_s32((int32x4_t)shift, zero);
    int32x4_t product = vqrdmulhq_s32(vshlq_s32((int32x4_t)v, left), (int32x4_t)multiplier);
    product = vqaddq_s32(product, vshrq_n_s32(vandq_s32(product, right), 31)); /* one from what is negative */
    return (ints)vrshlq_s32(product, right);
#else
    typedef uint32_t words __attribute__((vector_size(LANES * 4)));
    const ints rounds = shift < 0, one = -rounds, left = ((shift > 0) & shift) & 31, right = ((-shift & rounds) - one) & 31;
    v = high_product((ints)((words)v << (words)left), multiplier);
    return (((v + ((v >> 31) & rounds)) >> right) + one) >> one; /* the last bit but one first: no sum overflows */
#endif
}

/* The same, rounded once. */
INLINE ints fixed_product_once(ints v, ints multiplier, ints shift) {
    ints made;
    _Pragma("GCC unroll 1") for (int i = 0; i < LANES; i++) {
        int by = (int)((31u - (uint32_t)shift[i]) & 63);
        made[i] = (int32_t)(((int64_t)v[i] * multiplier[i] + ((int64_t)1 << by >> 1)) >> by);
    }
    return made;
}

/* The second and third quarter of a register change places, or nothing: AVX2 adds neighbours so. */
INLINE lanes crossed(lanes v, bool is_crossed) {
#if LANES == 8
    if (is_crossed) return (lanes)_mm256_permute4x64_pd((__m256d)v, 0xD8);
#endif
    (void)is_crossed;
    return v;
}

#if LANES == 16
/* One of the quarters of a register. */
INLINE __m128i quarter(__m512i v, int index) {
    return index == 0   ? _mm512_castsi512_si128(v)
           : index == 1 ? _mm512_extracti32x4_epi32(v, 1)
           : index == 2 ? _mm512_extracti32x4_epi32(v, 2)
                        : _mm512_extracti32x4_epi32(v, 3);
}
#endif

#if LANES == 8 && defined(__AVX2__)
/* Words of two registers, quarter by quarter in turn: what saturates, or their upper halves. */
INLINE __m256i words_of(ints a, ints b, bool are_upper) {
    return _mm256_packs_epi32((__m256i)(are_upper ? a >> 16 : a), (__m256i)(are_upper ? b >> 16 : b));
}
#elif LANES == 16
INLINE __m512i words_of(ints a, ints b, bool are_upper) {
    const __m512i upper = _mm512_setr_epi32(0x30001, 0x70005, 0x230021, 0x270025, 0xB0009, 0xF000D, 0x2B0029, 0x2F002D,
                                            0x130011, 0x170015, 0x330031, 0x370035, 0x1B0019, 0x1F001D, 0x3B0039, 0x3F003D);
    return are_upper ? _mm512_permutex2var_epi16((__m512i)a, upper, (__m512i)b) : _mm512_packs_epi32((__m512i)a, (__m512i)b);
}
#endif

/* Stores several registers of whole numbers within `low` and `high`, less `low`, `step` elements apart; four together
 * where that is less work. They may be crossed. `are_upper`, a constant: of what is stored already so, but may be less
 * than zero, upper halves are given. */
INLINE void registers_pack(uint8_t *target, int64_t step, const ints *v, int count, int32_t low, int32_t high,
                           bool is_crossed, bool are_upper) {
    (void)is_crossed, (void)are_upper;
#if LANES == 8 && defined(__AVX2__)
    const __m256i least = _mm256_set1_epi16((int16_t)low), most = _mm256_set1_epi8((char)(high - low));
    UNROLLED for (int first = 0; first < count; first += 4) {
        __m256i pair[2];
        UNROLLED for (int i = 0; i < 2; i++) {
            int a = first + 2 * i < count ? first + 2 * i : first, b = a + 1 < count ? a + 1 : a;
            pair[i] = words_of(v[a], v[b], are_upper);
            if (!are_upper) pair[i] = _mm256_subs_epi16(pair[i], least);
        }
        /* the first four lanes of each, then the others */
        __m256i all = _mm256_packus_epi16(pair[0], pair[1]);
        if (!are_upper) all = _mm256_min_epu8(all, most);
        __m128i a = _mm256_castsi256_si128(all), b = _mm256_extracti128_si256(all, 1);
        const __m128 two[2] = {(__m128)(is_crossed ? _mm_unpacklo_epi16(a, b) : _mm_unpacklo_epi32(a, b)),
                               (__m128)(is_crossed ? _mm_unpackhi_epi16(a, b) : _mm_unpackhi_epi32(a, b))};
        UNROLLED for (int i = 0; i < 4; i++) {
            __m64 *place = (__m64 *)(void *)(target + (first + i) * step);
            if (first + i >= count) continue;
            if (i % 2) {
                _mm_storeh_pi(place, two[i / 2]);
            } else {
                _mm_storel_pi(place, two[i / 2]);
            }
        }
    }
#elif defined(__aarch64__)
    const int16x8_t least = vdupq_n_s16((int16_t)low);
    const uint8x16_t most = vdupq_n_u8((uint8_t)(high - low));
    UNROLLED for (int first = 0; first < count; first += 4) {
        int16x8_t pair[2];
        UNROLLED for (int i = 0; i < 2; i++) {
            int a = first + 2 * i < count ? first + 2 * i : first, b = a + 1 < count ? a + 1 : a;
            pair[i] = vqsubq_s16(vqmovn_high_s32(vqmovn_s32((int32x4_t)v[a]), (int32x4_t)v[b]), least);
        }
        uint8x16_t all = vminq_u8(vqmovun_high_s16(vqmovun_s16(pair[0]), pair[1]), most);
        uint32x4_t words = vreinterpretq_u32_u8(all);
        if (__builtin_constant_p(step) && step == LANES && first + 4 <= count) {
            vst1q_u8(target + first * step, all);
            continue;
        }
        UNROLLED for (int i = 0; i < 4; i++) {
            uint32_t word = words[i];
            if (first + i < count) memcpy(target + (first + i) * step, &word, sizeof word);
        }
    }
#elif LANES == 16
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i least = _mm512_set1_epi16((int16_t)low), most = _mm512_set1_epi8((char)(high - low));
    UNROLLED for (int first = 0; first < count; first += 4) {
        __m512i pair[2];
        UNROLLED for (int i = 0; i < 2; i++) {
            int a = first + 2 * i < count ? first + 2 * i : first, b = a + 1 < count ? a + 1 : a;
            pair[i] = words_of(v[a], v[b], are_upper);
            if (!are_upper && low != 0) pair[i] = _mm512_subs_epi16(pair[i], least);
        }
        /* packed quarter by quarter: four lanes of each register */
        __m512i all = _mm512_packus_epi16(pair[0], pair[1]);
        if (!are_upper && high - low < UINT8_MAX) all = _mm512_min_epu8(all, most);
        all = _mm512_permutexvar_epi32(order, all);
        if (step == LANES && first + 4 <= count) {
            _mm512_storeu_si512(target + first * step, all);
            continue;
        }
        if (step == LANES && first + 2 == count) {
            _mm256_storeu_si256((__m256i *)(void *)(target + first * step), _mm512_castsi512_si256(all));
            continue;
        }
        UNROLLED for (int i = 0; i < 4; i++) {
            if (first + i < count) _mm_storeu_si128((__m128i *)(void *)(target + (first + i) * step), quarter(all, i));
        }
    }
#else
    UNROLLED for (int i = 0; i < count; i++) {
        integers_store(target + i * step, integers_clamp(v[i], (ints){0} + low, (ints){0} + high) - low);
    }
#endif
}

/* Results of which `rounded` and registers_pack keep what is beyond every bound there: ARM's instruction does that with
 * any, x86's makes the least number of all that it cannot hold. */
INLINE lanes convertible(lanes v, lanes low, lanes high) {
#if defined(__aarch64__)
    (void)low, (void)high;
    return v;
#elif LANES >= 8
    (void)low;
    return lanes_min(high, v);
#else
    return clamp(v, low, high);
#endif
}

/* The same of results, of which MOST_TOGETHER at most, to their nearest whole numbers. */
INLINE void registers_store(uint8_t *target, int64_t step, const lanes *v, int count, lanes low, lanes high,
                            bool is_crossed) {
    ints whole[MOST_TOGETHER];
    UNROLLED for (int i = 0; i < count; i++) whole[i] = rounded(convertible(v[i], low, high));
    registers_pack(target, step, whole, count, (int32_t)low[0], (int32_t)high[0], is_crossed, false);
}

/* Completes `count` registers of results, the first at `place`, `step` elements apart. `v`: with scale and bias. */
INLINE void results_store(const rt_quantized_end *end, lanes *v, int count, int64_t place, int64_t step, lanes low,
                          lanes high, bool is_crossed) {
    if (end->residual != NULL) {
        UNROLLED for (int i = 0; i < count; i++) {
            int64_t at = place + i * step;
            lanes residual = end->bytes & RT_BYTES_RESIDUAL ? bytes_load((const uint8_t *)end->residual + at)
                                                            : load((const float *)end->residual + at);
            v[i] += crossed(residual, is_crossed) * end->residual_scale;
        }
    }
    if (end->bytes & RT_BYTES_OUTPUT) {
        registers_store((uint8_t *)end->y + place, step, v, count, low, high, is_crossed);
        return;
    }
    UNROLLED for (int i = 0; i < count; i++) {
        store((float *)end->y + place + i * step, clamp(crossed(v[i], is_crossed), low, high));
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

/* How sums of the same lanes become bytes by fixed point: sum + start is multiplied. In floats (FLOATS_ERR) by `scale`; the
 * most that comes of it, and what is added to positive and to negative sums; where results are not signed, those of
 * negative sums are `low`. A value. */
typedef struct {
    ints start;
#ifdef FINE_FLOATS
    lanes scale, positive, negative, most;
    const float *multipliers, *shifts; /* of each lane, int32, which few results need */
#else
    ints multiplier, shift;
#endif
    bool is_near, is_once, is_crossed, are_signed;
    int32_t low, high;
} fixed_lanes;

/* Bits of a step that results have first: in floats they are made in fine steps, 2^-FINE each, a half of a step and an
 * `error` more and without `low`, such that the upper half of a word is what is stored, if the lower half is not less than
 * twice the error: what is made errs by less than that. */
enum { FINE = 16 };

#ifdef FINE_FLOATS
enum { FLOATS_ERR = 4, ARE_UPPER = true };

INLINE float fine_start(float low, int error) { return (0.5f - low) * (1 << FINE) + (float)error; }

INLINE lanes fine_most(float low, float high) { return (lanes){0} + (high - low + 0.5f) * (1 << FINE); }

INLINE ints multipliers(const fixed_lanes *by) { return (ints)crossed(load(by->multipliers), by->is_crossed); }

INLINE ints shifts(const fixed_lanes *by) { return (ints)crossed(load(by->shifts), by->is_crossed); }
#else
enum { ARE_UPPER = false };

INLINE ints multipliers(const fixed_lanes *by) { return by->multiplier; }

INLINE ints shifts(const fixed_lanes *by) { return by->shift; }
#endif

/* Those of the lanes from `channel` on; `bias`: of the end, or for sums over u - 128. */
INLINE fixed_lanes fixed_lanes_of(const rt_quantized_end *end, const float *bias, int64_t channel, bool is_crossed) {
    const float *scales = end->scales + channel;
#ifdef FINE_FLOATS
    const lanes slack = crossed(load(scales + 3 * end->shifts), is_crossed), start = (lanes){0} + fine_start(end->a, FLOATS_ERR);
#endif
    return (fixed_lanes){
        .start = (ints)crossed(load(bias + channel), is_crossed),
#ifdef FINE_FLOATS
        .scale = crossed(load(scales + 2 * end->shifts), is_crossed),
        .positive = start + slack,
        .negative = start - slack,
        .most = fine_most(end->a, end->b),
        .multipliers = scales,
        .shifts = scales + end->shifts,
#else
        .multiplier = (ints)crossed(load(scales), is_crossed),
        .shift = (ints)crossed(load(scales + end->shifts), is_crossed),
#endif
        .is_near = end->bytes & RT_BYTES_NEAR,
        .is_once = end->bytes & RT_BYTES_ONCE,
        .is_crossed = is_crossed,
        .are_signed = end->a < 0.0f && !(end->bytes & RT_BYTES_ONCE),
        .low = (int32_t)end->a,
        .high = (int32_t)end->b,
    };
}

/* Stores `count` results, whatever they are. */
APART void exact_store(const fixed_lanes *by, const ints *sums, int count, uint8_t *y, int64_t step) {
    const ints multiplier = multipliers(by), shift = shifts(by);
    for (int i = 0; i < count; i++) {
        const ints sum = sums[i] + by->start;
        const ints v = by->is_once ? fixed_product_once(sum, multiplier, shift) : fixed_product(sum, multiplier, shift);
        registers_pack(y + i * step, step, &v, 1, by->low, by->high, by->is_crossed, false);
    }
}

#ifdef FINE_FLOATS
/* The least lower halves yet. */
INLINE ints least_lower(ints there, ints v) {
#if LANES == 16
    return (ints)_mm512_min_epu16((__m512i)there, (__m512i)v);
#else
    return (ints)_mm256_min_epu16((__m256i)there, (__m256i)v);
#endif
}

/* Whether all lower halves are at least `bound`, a power of two. */
INLINE bool lower_exceed(ints v, int32_t bound) {
    const int32_t others = 0x10000 - bound;
#if LANES == 16
    return _mm512_test_epi32_mask((__m512i)v, _mm512_set1_epi32(others)) == 0xFFFF;
#else
    const __m256i none = _mm256_cmpeq_epi32((__m256i)(v & others), _mm256_setzero_si256());
    return _mm256_testz_si256(none, none);
#endif
}

/* One or the other by the sign of v. */
INLINE lanes by_sign(ints v, lanes positive, lanes negative) {
#if LANES == 16
    return (lanes)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)v), (__m512)positive, (__m512)negative);
#else
    return (lanes)_mm256_blendv_ps((__m256)positive, (__m256)negative, (__m256)v);
#endif
}

/* What `count` sums, a constant, become in floats; returns whether that is right. Results within all bounds have less than
 * 2^24 fine steps: the roundings of sum and scale change them by one each at most, that of what is added and that of the
 * whole by a half each, and what is left of a step by a quarter. TFLite rounds the magnitude upwards twice, therefore the
 * slack, which has the sum's sign. */
INLINE bool fine_results(const fixed_lanes *by, const ints *sums, int sum_step, int count, ints *v, bool are_signed) {
    ints least = (ints){0} - 1;
    UNROLLED for (int i = 0; i < count; i++) {
        ints sum = sums[i * sum_step] + by->start;
        if (are_signed) __asm__("" : "+v"(sum)); /* no product for both, which would cost registers */
        const lanes more = are_signed ? by_sign(sum, by->positive, by->negative) : by->positive;
        v[i] = rounded(lanes_min(by->most, __builtin_convertvector(sum, lanes) * by->scale + more));
        least = least_lower(least, v[i]);
    }
    return lower_exceed(least, 2 * FLOATS_ERR);
}

/* The same where it serves. */
INLINE bool quick_results(const fixed_lanes *by, const ints *sums, int sum_step, int count, ints *v) {
    if (!by->is_near) return false;
    return by->are_signed ? fine_results(by, sums, sum_step, count, v, true) : fine_results(by, sums, sum_step, count, v, false);
}
#else
/* The same where ARM's products take few steps themselves; elsewhere none are quick. */
INLINE bool quick_results(const fixed_lanes *by, const ints *sums, int sum_step, int count, ints *v) {
#if defined(__aarch64__)
    if (by->is_once) return false;
    UNROLLED for (int i = 0; i < count; i++) v[i] = fixed_product(sums[i * sum_step] + by->start, by->multiplier, by->shift);
    return true;
#else
    (void)by, (void)sums, (void)sum_step, (void)count, (void)v;
    return false;
#endif
}
#endif

/* Stores `count` results, a constant, of sums that lie `sum_step` registers apart. */
INLINE void some_store(const fixed_lanes *by, const ints *sums, int sum_step, int count, uint8_t *y, int64_t step) {
    ints v[MOST_TOGETHER];
    if (__builtin_expect(quick_results(by, sums, sum_step, count, v), 1)) {
        registers_pack(y, step, v, count, by->low, by->high, by->is_crossed, ARE_UPPER);
        return;
    }
    const fixed_lanes own_by = *by; /* what has its address given away stays in memory */
    ints own[MOST_TOGETHER];
    UNROLLED for (int i = 0; i < count; i++) own[i] = sums[i * sum_step];
    exact_store(&own_by, own, count, y, step);
}

/* Completes `count` registers of sums of the same lanes; `y`: of the first. */
INLINE void fixed_sums_store(const fixed_lanes *by, const ints *sums, int sum_step, int count, uint8_t *y, int64_t step) {
    int i = 0;
    for (; i + 4 <= count; i += 4) some_store(by, sums + i * sum_step, sum_step, 4, y + i * step, step);
    for (; i + 2 <= count; i += 2) some_store(by, sums + i * sum_step, sum_step, 2, y + i * step, step);
    if (i < count) some_store(by, sums + i * sum_step, sum_step, 1, y + i * step, step);
}

/* The same for those who have `by` in memory, not inlined: few models are so. */
APART void held_sums_store(const fixed_lanes *by, const ints *sums, int count, uint8_t *y) {
    const fixed_lanes own = *by; /* stores could change it, for all that the compiler knows */
    fixed_sums_store(&own, sums, 1, count, y, RT_BLOCK);
}

/* What completes whole sums of the same lanes. A value. */
typedef struct {
    rt_quantized_end end;
    lanes scale, bias, low, high;
    fixed_lanes fixed; /* only where sums are rounded so */
} sums_end;

/* That of the lanes from `channel` on. */
INLINE sums_end sums_end_of(const rt_quantized_end *end, int64_t channel) {
    sums_end made; /* without zeros, which take longer */
    made.end = *end;
    made.low = least(end), made.high = most(end);
    made.scale = load(end->scales + channel) * end->step, made.bias = load(end->bias + channel);
    if (end->bytes & RT_BYTES_FIXED) made.fixed = fixed_lanes_of(end, end->bias, channel, false);
    return made;
}

/* Completes `count` sums, a constant, of neighbouring pixels, the first of which is element `place`. */
INLINE void sums_complete(const sums_end *by, const ints *sum, int count, int64_t place) {
    if (by->end.bytes & RT_BYTES_FIXED) {
        some_store(&by->fixed, sum, 1, count, (uint8_t *)by->end.y + place, RT_BLOCK);
        return;
    }
    lanes v[MOST_TOGETHER];
    UNROLLED for (int p = 0; p < count; p++) v[p] = __builtin_convertvector(sum[p], lanes) * by->scale + by->bias;
    results_store(&by->end, v, count, place, RT_BLOCK, by->low, by->high, false);
}

/* Whatever activation is no clamp, of floats from `place` on. */
INLINE void results_activate(const rt_quantized_end *end, int64_t place, int64_t count) {
    if (end->bytes & RT_BYTES_OUTPUT || end->activation == RT_UNARY_CLAMP) return;
    end->tiles->apply(end->activation, end->a, end->b, (float *)end->y + place, (uint64_t)count);
}

#endif
