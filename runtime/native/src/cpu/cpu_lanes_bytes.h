/* Registers of integers from bytes, and results to bytes: what the loops over blocked tensors of eight bits share. Without
 * state. */
#ifndef RT_CPU_LANES_BYTES_H
#define RT_CPU_LANES_BYTES_H

#include "cpu_lanes.h"
#include "cpu_quantized.h"

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

#if LANES == 16 && defined(__AVX512BW__)
/* One of the quarters of a register. */
INLINE __m128i quarter(__m512i v, int index) {
    return index == 0   ? _mm512_castsi512_si128(v)
           : index == 1 ? _mm512_extracti32x4_epi32(v, 1)
           : index == 2 ? _mm512_extracti32x4_epi32(v, 2)
                        : _mm512_extracti32x4_epi32(v, 3);
}
#endif

/* Stores several registers of whole numbers within `low` and `high`, less `low`, `step` elements apart; four together
 * where that is less work. They may be crossed. */
INLINE void registers_pack(uint8_t *target, int64_t step, const ints *v, int count, int32_t low, int32_t high,
                           bool is_crossed) {
    (void)is_crossed;
#if LANES == 8 && defined(__AVX2__)
    const __m256i least = _mm256_set1_epi16((int16_t)low), most = _mm256_set1_epi8((char)(high - low));
    UNROLLED for (int first = 0; first < count; first += 4) {
        __m256i pair[2];
        UNROLLED for (int i = 0; i < 2; i++) {
            int a = first + 2 * i < count ? first + 2 * i : first, b = a + 1 < count ? a + 1 : a;
            pair[i] = _mm256_subs_epi16(_mm256_packs_epi32((__m256i)v[a], (__m256i)v[b]), least);
        }
        /* the first four lanes of each, then the others */
        __m256i all = _mm256_min_epu8(_mm256_packus_epi16(pair[0], pair[1]), most);
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
#elif LANES == 16 && defined(__AVX512BW__)
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i least = _mm512_set1_epi16((int16_t)low), most = _mm512_set1_epi8((char)(high - low));
    UNROLLED for (int first = 0; first < count; first += 4) {
        __m512i pair[2];
        UNROLLED for (int i = 0; i < 2; i++) {
            int a = first + 2 * i < count ? first + 2 * i : first, b = a + 1 < count ? a + 1 : a;
            pair[i] = _mm512_subs_epi16(_mm512_packs_epi32((__m512i)v[a], (__m512i)v[b]), least);
        }
        /* packed quarter by quarter: four lanes of each register */
        __m512i all = _mm512_min_epu8(_mm512_packus_epi16(pair[0], pair[1]), most);
        all = _mm512_permutexvar_epi32(order, all);
        if (step == LANES && first + 4 <= count) {
            _mm512_storeu_si512(target + first * step, all);
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
    registers_pack(target, step, whole, count, (int32_t)low[0], (int32_t)high[0], is_crossed);
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

/* How sums of the same lanes become bytes by fixed point, sum + start being multiplied; scale and slack: as of
 * rt_quantized_end. A value. */
typedef struct {
    ints start, multiplier, shift;
    lanes scale, slack;
    bool is_near, is_once, is_crossed;
    int32_t low, high;
} fixed_lanes;

/* Those of the lanes from `channel` on; `bias`: of the end, or for sums over u - 128. */
INLINE fixed_lanes fixed_lanes_of(const rt_quantized_end *end, const float *bias, int64_t channel, bool is_crossed) {
    const float *scales = end->scales + channel;
    return (fixed_lanes){
        .start = (ints)crossed(load(bias + channel), is_crossed),
        .multiplier = (ints)crossed(load(scales), is_crossed),
        .shift = (ints)crossed(load(scales + end->shifts), is_crossed),
        .scale = crossed(load(scales + 2 * end->shifts), is_crossed),
        .slack = crossed(load(scales + 3 * end->shifts), is_crossed),
        .is_near = end->bytes & RT_BYTES_NEAR,
        .is_once = end->bytes & RT_BYTES_ONCE,
        .is_crossed = is_crossed,
        .low = (int32_t)end->a,
        .high = (int32_t)end->b,
    };
}

/* Stores `count` results, whatever they are. */
APART void exact_store(const fixed_lanes *by, const ints *sums, int count, uint8_t *y, int64_t step) {
    for (int i = 0; i < count; i++) {
        const ints sum = sums[i] + by->start;
        const ints v = by->is_once ? fixed_product_once(sum, by->multiplier, by->shift)
                                   : fixed_product(sum, by->multiplier, by->shift);
        registers_pack(y + i * step, step, &v, 1, by->low, by->high, by->is_crossed);
    }
}

#if LANES >= 8 && defined(__FMA__)
/* The greater of what is there and how far v is from the nearest whole number, `whole`. */
INLINE lanes farther(lanes there, lanes v, ints whole) {
#if LANES == 16 && defined(__AVX512DQ__)
    (void)whole;
    return (lanes)_mm512_range_ps((__m512)there, _mm512_reduce_ps((__m512)v, 8), 11); /* of v's and there's absolute values */
#else
    const lanes far = v - __builtin_convertvector(whole, lanes);
    return lanes_max(there, (lanes)((ints)far & INT32_MAX));
#endif
}

/* Whether any lane is greater. */
INLINE bool any_exceeds(lanes v, float bound) {
#if LANES == 16
    return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(bound), _CMP_GT_OQ) != 0;
#else
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_set1_ps(bound), _CMP_GT_OQ)) != 0;
#endif
}

/* What `count` sums, a constant, become in few steps; returns whether that is right. In floats: of results within 340 steps,
 * farther than all bounds, three roundings err by less than 2^-14, so that it is but where one is so near to the middle
 * between two steps. */
INLINE bool quick_results(const fixed_lanes *by, const ints *sums, int sum_step, int count, ints *v) {
    lanes far = {0};
    if (!by->is_near) return false;
    UNROLLED for (int i = 0; i < count; i++) {
        const ints sum = sums[i * sum_step] + by->start, slack = (sum & INT32_MIN) | (ints)by->slack;
        const lanes made = __builtin_convertvector(sum, lanes) * by->scale + (lanes)slack;
        v[i] = rounded(made);
        far = farther(far, made, v[i]);
    }
    return !any_exceeds(far, 0.5f - 0x1p-14f);
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
        registers_pack(y, step, v, count, by->low, by->high, by->is_crossed);
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

/* Whatever activation is no clamp, of floats from `place` on. */
INLINE void results_activate(const rt_quantized_end *end, int64_t place, int64_t count) {
    if (end->bytes & RT_BYTES_OUTPUT || end->activation == RT_UNARY_CLAMP) return;
    end->tiles->apply(end->activation, end->a, end->b, (float *)end->y + place, (uint64_t)count);
}

#endif
