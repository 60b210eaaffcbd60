/* Pools over blocked tensors of eight bits: each lane for itself. */
#include "../../native/src/cpu/cpu_lanes_bytes.h"
#include "../../native/src/cpu/cpu_lanes_window.h"

/* Adds one tap to the result so far. */
INLINE ints combine(bool is_max, ints value, ints x) {
    if (!is_max) return value + x;
#if LANES == 16
    return (ints)_mm512_max_epi32((__m512i)value, (__m512i)x);
#elif LANES == 8
    return (ints)_mm256_max_epi32((__m256i)value, (__m256i)x);
#else
    const ints more = x > value;
    return (more & x) | (~more & value);
#endif
}

/* One pixel; a window wholly outside holds the least byte, or the zero point. */
INLINE void pixel_compute(const rt_quantized_pool *pool, const taps *at, int64_t out, bool is_max) {
    const rt_blocked_window *window = pool->window;
    ints value[PARTS];
    UNROLLED for (int part = 0; part < PARTS; part++) value[part] = (ints){0};
    for (int64_t i = at->rows.first; i < at->rows.end; i++) {
        const uint8_t *x = pool->x + ((at->top + i * window->dil_h) * window->in_w + at->left) * RT_BLOCK;
        for (int64_t j = at->columns.first; j < at->columns.end; j++) {
            const uint8_t *source = x + j * window->dil_w * RT_BLOCK;
            UNROLLED for (int part = 0; part < PARTS; part++) {
                value[part] = combine(is_max, value[part], integers_load(source + part * LANES));
            }
        }
    }
    int64_t rows = at->rows.end - at->rows.first, columns = at->columns.end - at->columns.first;
    int64_t found = rows > 0 && columns > 0 ? rows * columns : 0, most = window->k_h * window->k_w;
    int64_t divisor = is_max ? 1 : pool->count_include_pad ? most : found > 0 ? found : 1;
    const ints zeros = (ints){0} + (int32_t)(is_max ? pool->zero : pool->zero * found);
    const lanes low = (lanes){0} + pool->low, high = (lanes){0} + pool->high;
    UNROLLED for (int part = 0; part < PARTS; part++) {
        lanes v = __builtin_convertvector(value[part] - zeros, lanes) * (pool->scale / (float)divisor);
        bytes_store(pool->y + out * RT_BLOCK + part * LANES, clamp(v, low, high), (int32_t)pool->low);
    }
}

INLINE void rows_compute(const rt_quantized_pool *pool, bool is_max) {
    const rt_blocked_window *window = pool->window;
    rt_tap_range inside = columns_inside(window);
    for (int64_t row = pool->first_row; row < pool->end_row; row++) {
        taps at = row_taps(window, row);
        for (int64_t column = 0; column < window->out_w; column++) {
            column_move(window, column, inside, &at);
            pixel_compute(pool, &at, row * window->out_w + column, is_max);
        }
    }
}

void NAME(rt_lanes_quantized_pool_)(const rt_quantized_pool *pool) {
    if (pool->pooling == RT_POOLING_MAX) {
        rows_compute(pool, true);
    } else {
        rows_compute(pool, false);
    }
}
