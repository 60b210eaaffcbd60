/* Pools over blocked tensors of eight bits: each lane for itself. */
#include "../../native/src/cpu/cpu_lanes_bytes.h"
#include "../../native/src/cpu/cpu_lanes_window.h"

/* Columns of the greatest bytes of some rows, that are brought together at once; a wider window is read as it lies. */
enum { COLUMNS = 64 };

/* Stores the mean or the maximum of a pixel, which is `value` without `zeros`, times `scale`. */
INLINE void pixel_store(const rt_quantized_pool *pool, const ints *value, int32_t zeros, float scale, int64_t out) {
    const lanes low = (lanes){0} + pool->low, high = (lanes){0} + pool->high;
    UNROLLED for (int part = 0; part < PARTS; part++) {
        lanes v = __builtin_convertvector(value[part] - zeros, lanes) * scale;
        bytes_store(pool->y + out * RT_BLOCK + part * LANES, clamp(v, low, high), (int32_t)pool->low);
    }
}

/* --- means --- */

/* Stores what becomes of a sum by fixed point; `value` is without `zeros`. */
static void fixed_store(const rt_quantized_pool *pool, const ints *value, int32_t zeros, int64_t divisor, int64_t out) {
    const lanes low = (lanes){0} + pool->low, high = (lanes){0} + pool->high;
    const ints none = {0};
    for (int part = 0; part < PARTS; part++) {
        ints v = value[part] - zeros, negative = v < none;
        if (pool->fixed == 1) { /* a half more: the quotient's floor is that of the whole numbers */
            lanes more = __builtin_convertvector(((v ^ negative) - negative) + (int32_t)(divisor / 2), lanes) + 0.5f;
            v = (__builtin_convertvector(more / (float)divisor, ints) ^ negative) - negative;
        } else {
            v = fixed_product(v, none + pool->multiplier, none + pool->shift);
        }
        lanes made = clamp(__builtin_convertvector(v, lanes), low, high);
        bytes_store(pool->y + out * RT_BLOCK + part * LANES, made, (int32_t)pool->low);
    }
}

/* One pixel; a window wholly outside holds the zero point. */
INLINE void mean_compute(const rt_quantized_pool *pool, const taps *at, int64_t out) {
    const rt_blocked_window *window = pool->window;
    ints value[PARTS];
    UNROLLED for (int part = 0; part < PARTS; part++) value[part] = (ints){0};
    for (int64_t i = at->rows.first; i < at->rows.end; i++) {
        const uint8_t *x = pool->x + ((at->top + i * window->dil_h) * window->in_w + at->left) * RT_BLOCK;
        for (int64_t j = at->columns.first; j < at->columns.end; j++) {
            const uint8_t *source = x + j * window->dil_w * RT_BLOCK;
            UNROLLED for (int part = 0; part < PARTS; part++) value[part] += integers_load(source + part * LANES);
        }
    }
    int64_t rows = at->rows.end - at->rows.first, columns = at->columns.end - at->columns.first;
    int64_t found = rows > 0 && columns > 0 ? rows * columns : 0, most = window->k_h * window->k_w;
    int64_t divisor = pool->count_include_pad ? most : found > 0 ? found : 1;
    if (pool->fixed) {
        fixed_store(pool, value, (int32_t)(pool->zero * found), divisor, out);
        return;
    }
    pixel_store(pool, value, (int32_t)(pool->zero * found), pool->scale / (float)divisor, out);
}

/* --- maxima --- */

/* The bytes of a block in a register. */
#if defined(__SSE2__)
typedef __m128i block_bytes;

INLINE block_bytes block_load(const uint8_t *x) {
    const __m128i *source = (const __m128i *)(const void *)x;
    return RT_BLOCK == 8 ? _mm_loadl_epi64(source) : _mm_loadu_si128(source);
}

INLINE block_bytes greater(block_bytes a, block_bytes b) { return _mm_max_epu8(a, b); }
#else
typedef uint8_t block_bytes __attribute__((vector_size(RT_BLOCK)));

INLINE block_bytes block_load(const uint8_t *x) {
    block_bytes value;
    memcpy(&value, x, sizeof value);
    return value;
}

INLINE block_bytes greater(block_bytes a, block_bytes b) {
#if defined(__aarch64__) && RT_BLOCK == 16
    return (block_bytes)vmaxq_u8((uint8x16_t)a, (uint8x16_t)b);
#elif defined(__aarch64__)
    return (block_bytes)vmax_u8((uint8x8_t)a, (uint8x8_t)b);
#else
    const block_bytes more = (block_bytes)(b > a);
    return (more & b) | (~more & a);
#endif
}
#endif

/* The greatest bytes of `rows`, which lie `line` apart. */
static void rows_join(const uint8_t *x, int64_t line, int64_t rows, int64_t count, uint8_t *restrict y) {
    memcpy(y, x, (size_t)count);
    for (int64_t i = 1; i < rows; i++) {
        x += line;
        for (int64_t k = 0; k < count; k++) y[k] = x[k] > y[k] ? x[k] : y[k];
    }
}

INLINE void maximum_store(const rt_quantized_pool *pool, block_bytes value, int64_t out) {
    if (pool->scale == 1.0f && pool->low == (float)-pool->zero && pool->high == pool->low + 255.0f) {
        memcpy(pool->y + out * RT_BLOCK, &value, RT_BLOCK);
        return;
    }
    uint8_t held[sizeof value];
    ints wide[PARTS];
    memcpy(held, &value, sizeof held);
    UNROLLED for (int part = 0; part < PARTS; part++) wide[part] = integers_load(held + part * LANES);
    pixel_store(pool, wide, pool->zero, pool->scale, out);
}

/* Outputs of a row from `column` on whose windows lie within COLUMNS columns of the input together, at least one; one
 * wholly outside holds the least byte. Returns how many. */
INLINE int64_t maxima_compute(const rt_quantized_pool *pool, const taps *row, int64_t at_row, int64_t column,
                              rt_tap_range inside) {
    const rt_blocked_window *window = pool->window;
    const int64_t line = window->in_w * RT_BLOCK, reach = (window->k_w - 1) * window->dil_w + 1;
    int64_t most = reach <= COLUMNS ? (COLUMNS - reach) / window->stride_w + 1 : 1, rest = window->out_w - column;
    int64_t count = most < rest ? most : rest, rows = row->rows.end - row->rows.first;
    int64_t left = column * window->stride_w - window->pad_l, end = left + (count - 1) * window->stride_w + reach;
    int64_t first = left > 0 ? left : 0, width = (end < window->in_w ? end : window->in_w) - first;
    const uint8_t *x = pool->x + (row->top + row->rows.first * window->dil_h) * line + first * RT_BLOCK;
    uint8_t joined[COLUMNS * RT_BLOCK];
    if (reach <= COLUMNS && rows > 0 && width > 0) {
        rows_join(x, window->dil_h * line, rows, width * RT_BLOCK, joined);
        x = joined, rows = 1;
    }
    taps at = *row;
    for (int64_t p = 0; p < count; p++) {
        block_bytes value = {0}; /* the least byte */
        column_move(window, column + p, inside, &at);
        for (int64_t i = 0; i < rows; i++) {
            const uint8_t *source = x + i * window->dil_h * line + (at.left - first) * RT_BLOCK;
            for (int64_t j = at.columns.first; j < at.columns.end; j++) {
                value = greater(value, block_load(source + j * window->dil_w * RT_BLOCK));
            }
        }
        maximum_store(pool, value, at_row * window->out_w + column + p);
    }
    return count;
}

void NAME(rt_lanes_quantized_pool_)(const rt_quantized_pool *pool) {
    const rt_blocked_window *window = pool->window;
    rt_tap_range inside = columns_inside(window);
    for (int64_t row = pool->first_row; row < pool->end_row; row++) {
        taps at = row_taps(window, row);
        for (int64_t column = 0; column < window->out_w;) {
            if (pool->pooling == RT_POOLING_MAX) {
                column += maxima_compute(pool, &at, row, column, inside);
            } else {
                column_move(window, column, inside, &at);
                mean_compute(pool, &at, row * window->out_w + column++);
            }
        }
    }
}
