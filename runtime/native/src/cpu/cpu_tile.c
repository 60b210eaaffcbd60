/* RT_ISA names the instruction set that this file is compiled for; it is a suffix of the exported table.
 * RT_EXTENSIONS(X) is X(name) for each set that extends it in integers alone: these share the loops.
 *
 * Vectors are the compiler's (GCC and clang: vector_size), so the same source serves every set: LANES floats a
 * register, and a tile whose sums stay in registers from the first tap to the last.
 */
#include "cpu_tile.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu_math.h"

#define NAME_JOIN(prefix, isa) prefix##isa
#define NAME(prefix, isa) NAME_JOIN(prefix, isa)
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

/* Floats of a register, and the tile whose sums fill the registers but for those of weights and inputs. */
#if defined(__AVX512F__)
#define LANES 16
#define PIXELS 6
#define BLOCKS 4
#elif defined(__AVX__)
#define LANES 8
#define PIXELS 6
#define BLOCKS 1
#elif defined(__aarch64__)
#define LANES 4
#define PIXELS 5
#define BLOCKS 1
#else
#define LANES 4
#define PIXELS 2
#define BLOCKS 1
#endif
enum { PARTS = RT_CPU_BLOCK / LANES, DEPTHWISE_PIXELS = PIXELS < 4 ? PIXELS : 4 };

#include "cpu_vector.h"

/* rt_tile_kernels.apply. A loop for each function, so that the compiler makes vectors of it. */
#define EACH(code, call)                           \
    case code:                                     \
        for (uint64_t i = 0; i < count; i++) {     \
            float v = values[i];                   \
            values[i] = call;                      \
        }                                          \
        break;
static void apply(uint32_t function, float a, float b, float *values, uint64_t count) {
    switch (function) {
        RT_UNARIES(EACH)
        default: break;
    }
}
#undef EACH

/* Joins all lanes by halves: in as few steps as there may be, each of which waits for the one before. */
#define JOINED(type, values, joined)                                                \
    type part[LANES];                                                               \
    memcpy(part, &values, sizeof part);                                             \
    UNROLLED for (int half = LANES / 2; half > 0; half /= 2) {                      \
        UNROLLED for (int i = 0; i < half; i++) {                                   \
            type a = part[i], b = part[i + half];                                   \
            part[i] = joined;                                                       \
        }                                                                           \
    }                                                                               \
    return part[0];

INLINE float lanes_sum(lanes values) { JOINED(float, values, a + b) }
INLINE float lanes_greatest(lanes values) { JOINED(float, values, a > b ? a : b) }
INLINE int32_t lanes_any(mask bits) { JOINED(int32_t, bits, a | b) }
#undef JOINED

/* rt_tile_kernels.greatest: in four registers, which do not wait for each other. */
static float greatest(const float *values, uint64_t count) {
    lanes most[4] = {(lanes){0} - INFINITY, (lanes){0} - INFINITY, (lanes){0} - INFINITY, (lanes){0} - INFINITY};
    mask nan = {0};
    uint64_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        UNROLLED for (int k = 0; k < 4; k++) {
            lanes value = load(values + i + k * LANES);
            most[k] = lanes_max(value, most[k]);
            nan |= value != value;
        }
    }
    for (; i + LANES <= count; i += LANES) {
        lanes value = load(values + i);
        most[0] = lanes_max(value, most[0]);
        nan |= value != value;
    }
    if (lanes_any(nan) != 0) return NAN;
    float result = lanes_greatest(lanes_max(lanes_max(most[0], most[1]), lanes_max(most[2], most[3])));
    for (; i < count; i++) result = rt_greater(values[i], result);
    return result;
}

/* Sum of x - less, or of its square: in four registers, which do not wait for each other. */
INLINE float summed(const float *x, uint64_t count, float less, int squared) {
    lanes sums[4] = {0};
    float rest = 0.0f;
    uint64_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        for (int k = 0; k < 4; k++) {
            lanes value = load(x + i + k * LANES) - less;
            sums[k] += squared ? value * value : value;
        }
    }
    for (; i < count; i++) rest += squared ? (x[i] - less) * (x[i] - less) : x[i] - less;
    return lanes_sum(sums[0] + sums[1] + (sums[2] + sums[3])) + rest;
}

/* rt_tile_kernels.sum, squares. */
static float sum(const float *x, uint64_t count, float less) { return summed(x, count, less, 0); }
static float squares(const float *x, uint64_t count, float less) { return summed(x, count, less, 1); }

/* rt_tile_kernels.affine. */
static void affine(const float *x, const float *s, const float *t, float less, float factor, uint64_t count, float *y) {
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) store(y + i, (load(x + i) - less) * factor * load(s + i) + load(t + i));
    for (; i < count; i++) y[i] = (x[i] - less) * factor * s[i] + t[i];
}

/* rt_tile_kernels.exponentials. */
static float exponentials(float *values, uint64_t count, float less) {
    lanes sums = {0};
    float rest = 0.0f;
    uint64_t i = 0;
    for (uint64_t k = 0; k < count; k++) values[k] = rt_exp(values[k] - less);
    for (; i + LANES <= count; i += LANES) sums += load(values + i);
    for (; i < count; i++) rest += values[i];
    return lanes_sum(sums) + rest;
}

/* How many rows ahead of a product memory is asked for: keys of a cache lie apart, between those of other heads, and what
 * the CPU foresees by itself are neighbours. */
enum { ROWS_AHEAD = 24 };

/* Sums of products of four x, and of one, that do not wait for each other: whole registers once their lanes are summed. */
#if defined(__aarch64__)
enum { DOTS_OF_4 = 16, DOTS_OF_1 = 8 };
#else
enum { DOTS_OF_4 = LANES, DOTS_OF_1 = LANES };
#endif

/* The products of what fills no register. Not inlined: it is needed for odd depths alone. */
__attribute__((noinline)) static float dot(const float *x, const float *y, uint64_t count) {
    float sum = 0.0f;
    for (uint64_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

/* `count` products of `queries` x, both constants, with rows from `first` on. Behind the last row it is read again. */
INLINE void some_dots(const rt_dots *all, uint64_t query, uint64_t first, int queries, int count) {
    const int keys = count / queries;
    const int64_t exist = (int64_t)(all->count - first);
    const float *x = all->x + (int64_t)query * all->x_stride, *rows[DOTS_OF_4];
    float *y = all->y + (int64_t)query * all->y_stride + first;
    UNROLLED for (int64_t k = 0; k < keys; k++) {
        rows[k] = all->rows + ((int64_t)first + (k < exist ? k : exist - 1)) * all->rows_stride;
    }
    lanes sums[DOTS_OF_4] = {0};
    uint64_t i = 0;
    for (; i + LANES <= all->depth; i += LANES) {
        UNROLLED for (int k = 0; k < keys; k++) {
            lanes row = load(rows[k] + i);
            __builtin_prefetch(rows[k] + i + ROWS_AHEAD * all->rows_stride);
            UNROLLED for (int q = 0; q < queries; q++) sums[q * keys + k] += load(x + q * all->x_stride + i) * row;
        }
    }
    float totals[DOTS_OF_4];
    UNROLLED for (int s = 0; s < count; s += LANES) store(totals + s, lanes_sums(sums + s));
    for (int64_t s = 0; s < count; s++) {
        if (i < all->depth) totals[s] += dot(x + s / keys * all->x_stride + i, rows[s % keys] + i, all->depth - i);
        if (s % keys < exist) y[s / keys * all->y_stride + s % keys] = totals[s];
    }
}

/* rt_tile_kernels.dots. */
static void dots(const rt_dots *all) {
    uint64_t q = 0;
    for (; q + 4 <= all->queries; q += 4) {
        for (uint64_t r = 0; r < all->count; r += DOTS_OF_4 / 4) some_dots(all, q, r, 4, DOTS_OF_4);
    }
    for (; q < all->queries; q++) {
        for (uint64_t r = 0; r < all->count; r += DOTS_OF_1) some_dots(all, q, r, 1, DOTS_OF_1);
    }
}

/* Where the outputs and residuals of a pixel lie, from a channel on; `channel` counts from the first of the tensor. */
INLINE float *output_of(const rt_epilogue *end, uint64_t pixel, uint64_t channel) {
    return end->y + (int64_t)pixel * end->y_stride + (int64_t)channel;
}

INLINE const float *residual_of(const rt_epilogue *end, uint64_t pixel, uint64_t channel) {
    return end->residual ? end->residual + (int64_t)pixel * end->residual_stride + (int64_t)channel : NULL;
}

/* Completes sums of one pixel to outputs within the bounds of a clamp, and stores them: whole registers, then one by
 * one. */
INLINE void finish_clamp(const rt_epilogue *end, const float *sums, uint64_t pixel, uint64_t channel, uint64_t count) {
    float *y = output_of(end, pixel, channel);
    const float *residual = residual_of(end, pixel, channel);
    const lanes low = (lanes){0} + end->a, high = (lanes){0} + end->b;
    uint64_t done = 0;
    for (; done + LANES <= count; done += LANES) {
        lanes value = load(sums + done);
        if (end->bias != NULL) value += load(end->bias + channel + done);
        if (residual != NULL && end->multiplies) value *= load(residual + done);
        else if (residual != NULL) value += load(residual + done);
        store(y + done, clamp(value, low, high));
    }
    for (; done < count; done++) {
        float v = sums[done];
        if (end->bias != NULL) v += end->bias[channel + done];
        if (residual != NULL) v = end->multiplies ? v * residual[done] : v + residual[done];
        y[done] = rt_unary_clamp(v, end->a, end->b);
    }
}

/* The same with any activation, of `pixels` pixels whose sums follow each other, `width` apart: all in one loop. */
static void finish_function(const rt_epilogue *end, float *sums, uint32_t pixels, uint64_t width, uint64_t pixel,
                            uint64_t channel, uint64_t count) {
    for (uint32_t p = 0; p < pixels; p++) {
        const float *residual = residual_of(end, pixel + p, channel);
        float *own = sums + p * width;
        for (uint64_t i = 0; i < count && end->bias != NULL; i++) own[i] += end->bias[channel + i];
        for (uint64_t i = 0; i < count && residual != NULL && end->multiplies; i++) own[i] *= residual[i];
        for (uint64_t i = 0; i < count && residual != NULL && !end->multiplies; i++) own[i] += residual[i];
    }
    apply(end->activation, end->a, end->b, sums, pixels * width);
    for (uint32_t p = 0; p < pixels; p++) {
        memcpy(output_of(end, pixel + p, channel), sums + p * width, count * sizeof *sums);
    }
}

/* Completes sums [pixels][width] to outputs and stores the first `count` channels of each pixel. */
static void finish(const rt_epilogue *end, float *sums, uint32_t pixels, uint64_t width, uint64_t pixel, uint64_t channel,
                   uint64_t count) {
    if (end->activation != RT_UNARY_CLAMP) {
        finish_function(end, sums, pixels, width, pixel, channel, count);
        return;
    }
    for (uint32_t p = 0; p < pixels; p++) finish_clamp(end, sums + p * width, pixel + p, channel, count);
}

/* rt_tile_kernels.complete. */
static void complete(const rt_tile *tile, float *sums) {
    finish(tile->epilogue, sums, tile->pixels, tile->blocks * RT_CPU_BLOCK, tile->first_pixel, tile->first_channel,
           tile->channels);
}

/* Adds the bias to the sums of a tile of whole blocks, and the residual, or multiplies them by it. */
INLINE void sums_complete(const rt_tile *tile, lanes sum[PIXELS][BLOCKS * PARTS], int pixels, int blocks) {
    const rt_epilogue *end = tile->epilogue;
    if (end->bias != NULL) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) {
            lanes bias = load(end->bias + tile->first_channel + i * LANES);
            UNROLLED for (int p = 0; p < pixels; p++) sum[p][i] += bias;
        }
    }
    if (end->residual == NULL) return;
    const float *residual = residual_of(end, tile->first_pixel, tile->first_channel);
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) {
            lanes value = load(residual + p * end->residual_stride + i * LANES);
            sum[p][i] = end->multiplies ? sum[p][i] * value : sum[p][i] + value;
        }
    }
}

/* Stores them within the bounds of a clamp. */
INLINE void sums_store(const rt_tile *tile, lanes sum[PIXELS][BLOCKS * PARTS], int pixels, int blocks) {
    const rt_epilogue *end = tile->epilogue;
    const lanes low = (lanes){0} + end->a, high = (lanes){0} + end->b;
    float *y = output_of(end, tile->first_pixel, tile->first_channel);
    const int64_t stride = end->y_stride; /* stores could change it, for all that the compiler knows */
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) store(y + p * stride + i * LANES, clamp(sum[p][i], low, high));
    }
}

/* The activation of a tile of whole blocks, in memory. */
static void tile_activate(const rt_tile *tile, float *sums) {
    const rt_epilogue *end = tile->epilogue;
    uint64_t width = tile->blocks * RT_CPU_BLOCK;
    apply(end->activation, end->a, end->b, sums, tile->pixels * width);
    for (uint32_t p = 0; p < tile->pixels; p++) {
        float *y = output_of(end, tile->first_pixel + p, tile->first_channel);
        for (uint64_t i = 0; i < width; i += LANES) store(y + i, load(sums + p * width + i));
    }
}

/* Completes the sums of a tile to outputs; other than clamps of whole blocks go by memory. */
INLINE void sums_finish(const rt_tile *tile, lanes sum[PIXELS][BLOCKS * PARTS], int pixels, int blocks) {
    float sums[PIXELS * BLOCKS * RT_CPU_BLOCK] __attribute__((aligned(64)));
    const rt_epilogue *end = tile->epilogue;
    bool whole = tile->channels == (uint64_t)blocks * RT_CPU_BLOCK;
    if (whole) sums_complete(tile, sum, pixels, blocks);
    if (whole && end->activation == RT_UNARY_CLAMP) {
        sums_store(tile, sum, pixels, blocks);
        return;
    }
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) store(sums + (p * blocks * PARTS + i) * LANES, sum[p][i]);
    }
    if (whole) tile_activate(tile, sums);
    else complete(tile, sums);
}

/* Adds the products of column c of a tap, whose weights begin at w. */
INLINE void column_add(const rt_tile *tile, lanes sum[PIXELS][BLOCKS * PARTS], const float *const *x, uint32_t c,
                       const float *w, int pixels, int blocks) {
    lanes weight[BLOCKS * PARTS];
    UNROLLED for (int i = 0; i < blocks * PARTS; i++) {
        weight[i] = load(w + i / PARTS * tile->block_stride + i % PARTS * LANES);
    }
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[p][i] += weight[i] * x[p][c];
    }
}

/* All sums of a tile of constant size, in registers. */
INLINE void product_compute(const rt_tile *tile, int pixels, int blocks) {
    const int ways = pixels == 1 ? WAYS : 1;
    const int64_t row = tile->weights_stride;
    lanes sum[WAYS][PIXELS][BLOCKS * PARTS];
    const float *w = tile->weights;
    UNROLLED for (int k = 0; k < ways * pixels; k++) { /* an initializer would clear memory */
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[k / pixels][k % pixels][i] = (lanes){0};
    }
    for (uint32_t tap = 0; tap < tile->taps; tap++) {
        const float *x[PIXELS]; /* the inputs of this tap; each is multiplied with a whole register of weights */
        for (int p = 0; p < pixels; p++) x[p] = tile->rows[tap * RT_TILE_PIXELS + (uint32_t)p];
        uint32_t c = 0;
#if defined(__aarch64__)
        for (; c + (uint32_t)ways * LANES <= tile->depth; c += (uint32_t)ways * LANES) {
            UNROLLED for (uint32_t k = 0; k < (uint32_t)ways; k++, w += LANES * row) {
                by_lane_add(&sum[k][0][0], BLOCKS * PARTS, x, c + k * LANES, w, row, tile->block_stride, PARTS, pixels, blocks);
            }
        }
#endif
        for (; ways > 1 && c + (uint32_t)ways <= tile->depth; c += (uint32_t)ways) {
            UNROLLED for (uint32_t k = 0; k < (uint32_t)ways; k++, w += row) {
                column_add(tile, sum[k], x, c + k, w, pixels, blocks);
            }
        }
        for (; c < tile->depth; c++, w += row) column_add(tile, sum[0], x, c, w, pixels, blocks);
    }
    UNROLLED for (int k = 1; k < ways; k++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[0][0][i] += sum[k][0][i];
    }
    sums_finish(tile, sum[0], pixels, blocks);
}

/* Sums of a constant size, so that they stay in registers. */
INLINE void pixels_compute(const rt_tile *tile, int pixels) {
    switch (tile->blocks) {
        case 1: product_compute(tile, pixels, 1); break;
#if BLOCKS == 4
        case 2: product_compute(tile, pixels, 2); break;
        case 3: product_compute(tile, pixels, 3); break;
        case 4: product_compute(tile, pixels, 4); break;
#endif
        default: break;
    }
}

/* rt_tile_kernels.product. */
IN_ORDER static void product(const rt_tile *tile) {
    switch (tile->pixels) {
        case 1: pixels_compute(tile, 1); break;
        case 2: pixels_compute(tile, 2); break;
#if PIXELS >= 5
        case 3: pixels_compute(tile, 3); break;
        case 4: pixels_compute(tile, 4); break;
        case 5: pixels_compute(tile, 5); break;
#endif
#if PIXELS == 6
        case 6: pixels_compute(tile, 6); break;
#endif
        default: break;
    }
}

/* A register of halves as floats. */
INLINE lanes load_halves(const uint16_t *halves) {
#if LANES == 16
    return (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)halves));
#elif LANES == 8
    return (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
#elif defined(__aarch64__)
    return (lanes)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves)));
#else
    const mask bits = {halves[0], halves[1], halves[2], halves[3]}, size = bits & 0x7fff;
    const lanes subnormal = __builtin_convertvector(size, lanes) * 0x1p-24f;
    const mask bias = {0x38000000, 0x38000000, 0x38000000, 0x38000000}; /* 112: once more of what is not finite */
    const mask normal = (size << 13) + bias + ((size >= 0x7c00) & bias);
    return (lanes)((mask)choose(size < 0x400, subnormal, (lanes)normal) | (bits & 0x8000) << 16);
#endif
}

/* rt_tile_kernels.halves_to_floats. */
static void halves_to_floats(const uint16_t *halves, uint64_t count, float *target) {
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) store(target + i, load_halves(halves + i));
    for (uint16_t last[LANES] = {0}; i < count; i++) {
        last[0] = halves[i];
        target[i] = load_halves(last)[0];
    }
}

/* RT_CPU_BLOCK integers as floats. */
INLINE void integers_widen(const int8_t *integers, lanes values[PARTS]) {
#if LANES == 16
    values[0] = (lanes)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)integers)));
#elif LANES == 8
    for (int i = 0; i < PARTS; i++) {
        __m128i narrow = _mm_loadl_epi64((const __m128i *)(const void *)(integers + i * LANES));
        values[i] = (lanes)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(narrow));
    }
#elif defined(__aarch64__)
    int8x16_t narrow = vld1q_s8(integers);
    int16x8_t low = vmovl_s8(vget_low_s8(narrow)), high = vmovl_s8(vget_high_s8(narrow));
    values[0] = (lanes)vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    values[1] = (lanes)vcvtq_f32_s32(vmovl_s16(vget_high_s16(low)));
    values[2] = (lanes)vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    values[3] = (lanes)vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)));
#elif defined(__x86_64__)
    __m128i narrow = _mm_loadu_si128((const __m128i *)(const void *)integers);
    __m128i halves[2] = {_mm_unpacklo_epi8(narrow, narrow), _mm_unpackhi_epi8(narrow, narrow)};
    for (int i = 0; i < PARTS; i++) { /* each integer four times, of which the highest stays */
        __m128i half = halves[i / 2], wide = i % 2 ? _mm_unpackhi_epi16(half, half) : _mm_unpacklo_epi16(half, half);
        values[i] = (lanes)_mm_cvtepi32_ps(_mm_srai_epi32(wide, 24));
    }
#else
    for (int i = 0; i < PARTS; i++, integers += LANES) {
        values[i] = (lanes){(float)integers[0], (float)integers[1], (float)integers[2], (float)integers[3]};
    }
#endif
}

/* Bytes of a block's columns before one. */
INLINE uint64_t bytes_before(uint32_t bits, uint64_t column) { return column * bits / 8 * RT_CPU_BLOCK; }

/* One column of a block, its integers or halves as floats. */
INLINE void column_load(const uint8_t *columns, uint32_t bits, uint64_t column, lanes values[PARTS]) {
    typedef uint8_t bytes __attribute__((vector_size(RT_CPU_BLOCK)));
    typedef uint16_t pairs __attribute__((vector_size(RT_CPU_BLOCK))); /* few CPUs shift bytes */
    bytes own;
    columns += bytes_before(bits, column);
    if (bits == RT_HALF_BITS) {
        const uint16_t *halves = (const uint16_t *)(const void *)columns;
        for (int i = 0; i < PARTS; i++) values[i] = load_halves(halves + i * LANES);
        return;
    }
#if LANES == 16
    if (bits == 4) { /* the lower half of a byte chooses among all values */
        const __m512 all = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
        const __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)columns));
        values[0] = (lanes)_mm512_permutexvar_ps(column % 2 ? _mm512_srli_epi32(both, 4) : both, all);
        return;
    }
#endif
    memcpy(&own, columns, sizeof own);
    if (bits == 4) own = ((bytes)((pairs)own >> (uint16_t)(column % 2 * 4)) & 15) - 8;
    integers_widen((const int8_t *)&own, values);
}

/* Where the columns that share a scale with `column` end, within `end`. */
INLINE uint64_t group_end(const rt_narrow_weights *weights, uint64_t column, uint64_t end) {
    uint64_t next = (column / weights->group + 1) * weights->group;
    return next < end ? next : end;
}

/* Their scales in a block of integers. */
INLINE const float *group_scales(const rt_narrow_weights *weights, uint64_t column) {
    return (const float *)(const void *)weights->data + column / weights->group * RT_CPU_BLOCK;
}

/* The first column of a block. */
INLINE const uint8_t *first_column(const rt_narrow_weights *weights) {
    return weights->data + weights->scales * RT_CPU_BLOCK * sizeof(float);
}

/* Adds the products of columns `from` to `end`, which share a scale, with x[0], x[1], ... Several sums do not wait for
 * each other. */
INLINE void columns_add(const rt_narrow_weights *weights, uint32_t bits, const float *x, uint64_t from, uint64_t end,
                        lanes total[PARTS]) {
    enum { SUMS = 4 };
    const uint8_t *columns = first_column(weights);
    const float *scales = group_scales(weights, from);
    lanes sum[SUMS][PARTS] = {0}, values[PARTS];
    uint64_t column = from;
    for (; column % 2 == 0 && column + SUMS <= end; column += SUMS) {
        const uint8_t *own = columns + bytes_before(bits, column);
        for (uint32_t k = 0; k < SUMS; k++) {
            column_load(own, bits, k, values);
            for (int i = 0; i < PARTS; i++) sum[k][i] += values[i] * x[column - from + k];
        }
    }
    for (; column < end; column++) {
        column_load(columns, bits, column, values);
        for (int i = 0; i < PARTS; i++) sum[0][i] += values[i] * x[column - from];
    }
    for (int i = 0; i < PARTS; i++) {
        lanes all = sum[0][i] + sum[1][i] + (sum[2][i] + sum[3][i]);
        total[i] += bits == RT_HALF_BITS ? all : all * load(scales + i * LANES);
    }
}

/* rt_tile_kernels.narrow_product, of a constant number of bits. */
INLINE void narrow_sum(const rt_tile *tile, const rt_narrow_weights *weights, uint32_t bits) {
    for (uint32_t p = 0; p < tile->pixels; p++) {
        float sums[RT_CPU_BLOCK] __attribute__((aligned(64)));
        lanes total[PARTS] = {0};
        for (uint32_t tap = 0; tap < tile->taps; tap++) {
            const float *x = tile->rows[tap * RT_TILE_PIXELS + p];
            uint64_t first = (uint64_t)tap * tile->depth, end = first + tile->depth, next;
            for (uint64_t column = first; column < end; column = next) {
                next = group_end(weights, column, end);
                columns_add(weights, bits, x + (column - first), column, next, total);
            }
        }
        for (int i = 0; i < PARTS; i++) store(sums + i * LANES, total[i]);
        finish(tile->epilogue, sums, 1, RT_CPU_BLOCK, tile->first_pixel + p, tile->first_channel, tile->channels);
    }
}

/* Adds the products of a column with each pixel's input; which becomes floats once for all pixels. `scale`: NULL
 * where one of each row is for all columns. */
INLINE void pixels_add(const uint8_t *columns, uint32_t bits, uint64_t column, const lanes *scale,
                       const float *const x[PIXELS], uint64_t at, lanes sum[PIXELS][PARTS]) {
    lanes values[PARTS];
    column_load(columns, bits, column, values);
    UNROLLED for (int i = 0; i < PARTS && scale != NULL; i++) values[i] *= scale[i];
    UNROLLED for (int p = 0; p < PIXELS; p++) {
        UNROLLED for (int i = 0; i < PARTS; i++) sum[p][i] += values[i] * x[p][at];
    }
}

/* The same as narrow_sum of all pixels of a tile together; `many`: a row has several scales. */
INLINE void narrow_sum_together(const rt_tile *tile, const rt_narrow_weights *weights, uint32_t bits, bool many) {
    float sums[PIXELS * RT_CPU_BLOCK] __attribute__((aligned(64)));
    lanes sum[PIXELS][PARTS] = {0}, scale[PARTS];
    const uint8_t *columns = first_column(weights);
    for (uint32_t tap = 0; tap < tile->taps; tap++) {
        const float *x[PIXELS];
        uint64_t first = (uint64_t)tap * tile->depth, end = first + tile->depth;
        for (int p = 0; p < PIXELS; p++) x[p] = tile->rows[tap * RT_TILE_PIXELS + (uint32_t)p];
        for (uint64_t column = first, next; column < end; column = next) {
            next = many ? group_end(weights, column, end) : end;
            for (int i = 0; i < PARTS && many; i++) scale[i] = load(group_scales(weights, column) + i * LANES);
            for (uint64_t c = column; c < next; c++) pixels_add(columns, bits, c, many ? scale : NULL, x, c - first, sum);
        }
    }
    for (int p = 0; p < PIXELS; p++) {
        for (int i = 0; i < PARTS; i++) {
            bool scaled = many || bits == RT_HALF_BITS;
            lanes total = scaled ? sum[p][i] : sum[p][i] * load(group_scales(weights, 0) + i * LANES);
            store(sums + p * RT_CPU_BLOCK + i * LANES, total);
        }
    }
    finish(tile->epilogue, sums, tile->pixels, RT_CPU_BLOCK, tile->first_pixel, tile->first_channel, tile->channels);
}

enum { FEW_PIXELS = 2 }; /* of which each is faster alone */

/* Of a constant number of bits. */
INLINE void narrow_product_compute(const rt_tile *tile, const rt_narrow_weights *weights, uint32_t bits) {
    if (tile->pixels <= FEW_PIXELS) {
        narrow_sum(tile, weights, bits);
    } else if (bits != RT_HALF_BITS && weights->scales > 1) {
        narrow_sum_together(tile, weights, bits, true);
    } else {
        narrow_sum_together(tile, weights, bits, false);
    }
}

static void narrow_product(const rt_tile *tile, const rt_narrow_weights *weights) {
    switch (weights->bits) {
        case 4: narrow_product_compute(tile, weights, 4); break;
        case 8: narrow_product_compute(tile, weights, 8); break;
        default: narrow_product_compute(tile, weights, RT_HALF_BITS); break;
    }
}

/* rt_tile_kernels.narrow_to_floats of a constant number of bits, integers; two columns at once, that may share bytes. */
INLINE void integers_to_floats(const rt_narrow_weights *weights, uint32_t bits, float *target) {
    const uint8_t *columns = first_column(weights);
    for (uint64_t column = 0, end; column < weights->columns; column = end) {
        lanes scale[PARTS], values[PARTS];
        for (int i = 0; i < PARTS; i++) scale[i] = load(group_scales(weights, column) + i * LANES);
        end = group_end(weights, column, weights->columns);
        for (uint64_t c = column, count; c < end; c += count) {
            const uint8_t *own = columns + bytes_before(bits, c - c % 2);
            count = c % 2 == 0 && c + 2 <= end ? 2 : 1;
            for (uint32_t k = 0; k < 2; k++) {
                if (count == 1 && k != c % 2) continue;
                column_load(own, bits, k, values);
                for (int i = 0; i < PARTS; i++) store(target + i * LANES, values[i] * scale[i]);
                target += RT_CPU_BLOCK;
            }
        }
    }
}

static void narrow_to_floats(const rt_narrow_weights *weights, float *target) {
    const uint16_t *halves = (const uint16_t *)(const void *)first_column(weights);
    switch (weights->bits) {
        case 4: integers_to_floats(weights, 4, target); break;
        case 8: integers_to_floats(weights, 8, target); break;
        default: halves_to_floats(halves, weights->columns * RT_CPU_BLOCK, target);
    }
}

/* Sums RT_CPU_BLOCK channels of DEPTHWISE_PIXELS pixels in registers. Those of pixels that the tile does not have are
 * sums of valid rows too (rt_tile), and the caller drops them. */
INLINE void depthwise_sum(const rt_depthwise_tile *tile, uint64_t channel, float *sums) {
    lanes sum[DEPTHWISE_PIXELS][PARTS] = {0};
    const float *w = tile->weights + channel;
    for (uint32_t tap = 0; tap < tile->taps; tap++, w += tile->channels) {
        for (int i = 0; i < PARTS; i++) {
            lanes weight = load(w + i * LANES);
            for (int p = 0; p < DEPTHWISE_PIXELS; p++) {
                sum[p][i] += weight * load(tile->rows[tap * RT_TILE_PIXELS + (uint32_t)p] + channel + i * LANES);
            }
        }
    }
    for (int p = 0; p < DEPTHWISE_PIXELS; p++) {
        for (int i = 0; i < PARTS; i++) store(sums + p * RT_CPU_BLOCK + i * LANES, sum[p][i]);
    }
}

/* Sums the channels behind the last whole block, one by one. */
static void depthwise_rest(const rt_depthwise_tile *tile, uint64_t channel, float *sums) {
    for (uint32_t p = 0; p < tile->pixels; p++) {
        for (uint64_t c = channel; c < tile->channels; c++) {
            float sum = 0.0f;
            for (uint32_t tap = 0; tap < tile->taps; tap++) {
                sum += tile->rows[tap * RT_TILE_PIXELS + p][c] * tile->weights[tap * tile->channels + c];
            }
            sums[p * RT_CPU_BLOCK + c - channel] = sum;
        }
    }
}

/* rt_tile_kernels.depthwise: a block of channels after another. */
static void depthwise(const rt_depthwise_tile *tile) {
    float sums[RT_TILE_PIXELS * RT_CPU_BLOCK] __attribute__((aligned(64))) = {0};
    for (uint64_t channel = 0; channel < tile->channels; channel += RT_CPU_BLOCK) {
        uint64_t rest = tile->channels - channel;
        uint64_t count = rest < RT_CPU_BLOCK ? rest : RT_CPU_BLOCK;
        if (count == RT_CPU_BLOCK) {
            depthwise_sum(tile, channel, sums);
        } else {
            depthwise_rest(tile, channel, sums);
        }
        finish(tile->epilogue, sums, tile->pixels, RT_CPU_BLOCK, tile->first_pixel, channel, count);
    }
}

#define TABLE(isa)                                                             \
    const rt_tile_kernels NAME(rt_tile_kernels_, isa) = {                      \
        TEXT(isa),     PIXELS,       BLOCKS,             DEPTHWISE_PIXELS,     \
        product,       narrow_product, narrow_to_floats,  complete, halves_to_floats,  \
        depthwise,     apply,         greatest,     exponentials,       sum,                  \
        squares,       affine,       dots};
TABLE(RT_ISA)
RT_EXTENSIONS(TABLE)
