/* Depthwise convolution and pools: each lane for itself. A row of outputs is computed some pixels at a time where every
 * column of taps lies within the input, and pixel by pixel at the edges; rows of taps outside are left out. */
#include "cpu_lanes_window.h"

enum { PIXELS = 4 };

/* Where a tap's row begins in the input, for the first pixel. */
INLINE const float *tap_row(const rt_blocked_rows *rows, const taps *at, int64_t i) {
    const rt_blocked_window *window = rows->window;
    return rows->x + ((at->top + i * window->dil_h) * window->in_w + at->left) * RT_BLOCK;
}

/* A depthwise_register of floats. */
INLINE void depthwise_compute(const void *blocked_rows, const taps *at, int64_t out, int part, int pixels,
                              rt_tap_range columns, int64_t k_w, int64_t stride, int64_t dil) {
    const rt_blocked_rows *rows = blocked_rows;
    lanes sum[PIXELS], low = lower_bound(rows->activation, rows->a), high = upper_bound(rows->activation, rows->b);
    UNROLLED for (int p = 0; p < pixels; p++) {
        sum[p] = load(rows->bias + part);
        if (rows->residual != NULL) sum[p] += load(rows->residual + (out + p) * RT_BLOCK + part);
    }
    for (int64_t i = at->rows.first; i < at->rows.end; i++) {
        const float *x = tap_row(rows, at, i) + part, *w = rows->weights + i * k_w * RT_BLOCK + part;
        for (int64_t j = columns.first; j < columns.end; j++) {
            lanes weight = load(w + j * RT_BLOCK);
            UNROLLED for (int p = 0; p < pixels; p++) sum[p] += weight * load(x + (p * stride + j * dil) * RT_BLOCK);
        }
    }
    float *y = rows->y + out * RT_BLOCK + part;
    UNROLLED for (int p = 0; p < pixels; p++) store(y + p * RT_BLOCK, clamp(sum[p], low, high));
}

static void depthwise_pixel(const void *rows, taps *at, int64_t row, int64_t column) {
    depthwise_at_edge(((const rt_blocked_rows *)rows)->window, rows, at, row, column, depthwise_compute);
}

static void depthwise_pixels(const void *rows, taps *at, int64_t row, int64_t column) {
    depthwise_inside(((const rt_blocked_rows *)rows)->window, rows, at, row, column, PIXELS, depthwise_compute);
}

void NAME(rt_lanes_depthwise_)(const rt_blocked_rows *rows) {
    rt_tap_range inside = columns_inside(rows->window);
    int64_t width = rows->window->out_w;
    for (int64_t row = rows->first_row; row < rows->end_row; row++) {
        depthwise_row(rows->window, rows, row, inside, PIXELS, depthwise_pixel, depthwise_pixels);
    }
    if (rows->activation == RT_UNARY_CLAMP) return;
    uint64_t count = (uint64_t)((rows->end_row - rows->first_row) * width * RT_BLOCK);
    rows->tiles->apply(rows->activation, rows->a, rows->b, rows->y + rows->first_row * width * RT_BLOCK, count);
}

/* Adds one tap to the result so far; of a maximum, a NaN on either side is the result. */
INLINE lanes combine(bool is_max, lanes value, lanes x) {
    return is_max ? choose((x > value) | (x != x), x, value) : value + x;
}

/* One pixel of a pool. A window wholly outside gives what an empty maximum or mean is. */
INLINE void pool_pixel(const rt_blocked_rows *rows, const taps *at, int64_t out, bool is_max) {
    const rt_blocked_window *window = rows->window;
    lanes value[PARTS];
    for (int part = 0; part < PARTS; part++) value[part] = (lanes){0} + (is_max ? -INFINITY : 0.0f);
    for (int64_t i = at->rows.first; i < at->rows.end; i++) {
        const float *x = tap_row(rows, at, i);
        for (int64_t j = at->columns.first; j < at->columns.end; j++) {
            const float *source = x + j * window->dil_w * RT_BLOCK;
            UNROLLED for (int part = 0; part < PARTS; part++) {
                value[part] = combine(is_max, value[part], load(source + part * LANES));
            }
        }
    }
    bool is_none = at->rows.end <= at->rows.first || at->columns.end <= at->columns.first;
    int64_t found = is_none ? 0 : (at->rows.end - at->rows.first) * (at->columns.end - at->columns.first);
    float divisor = rows->count_include_pad ? (float)window->k_h * (float)window->k_w : (float)found;
    UNROLLED for (int part = 0; part < PARTS; part++) {
        if (!is_max) value[part] /= (lanes){0} + divisor;
        store(rows->y + out * RT_BLOCK + part * LANES, value[part]);
    }
}

/* One row of a pool. */
INLINE void pool_row(const rt_blocked_rows *rows, int64_t row, rt_tap_range inside, bool is_max) {
    const rt_blocked_window *window = rows->window;
    taps at = row_taps(window, row);
    for (int64_t column = 0; column < window->out_w; column++) {
        column_move(window, column, inside, &at);
        pool_pixel(rows, &at, row * window->out_w + column, is_max);
    }
}

void NAME(rt_lanes_pool_)(const rt_blocked_rows *rows) {
    rt_tap_range inside = columns_inside(rows->window);
    for (int64_t row = rows->first_row; row < rows->end_row; row++) {
        if (rows->pooling == RT_POOLING_MAX) {
            pool_row(rows, row, inside, true);
        } else {
            pool_row(rows, row, inside, false);
        }
    }
}

void NAME(rt_lanes_sum_)(const float *x, uint64_t pixels, float *sums) {
    for (int part = 0; part < RT_BLOCK; part += LANES) {
        lanes sum = {0};
        for (uint64_t p = 0; p < pixels; p++) sum += load(x + p * RT_BLOCK + part);
        store(sums + part, sum);
    }
}
