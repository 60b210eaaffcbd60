/* Winograd's transforms F(2x2, 3x3) and F(4x4, 3x3) of one block: each lane for itself. The matrices stand in
 * runtime/layout/winograd.py. */
#include "../../native/src/cpu/cpu_lanes_bytes.h"

/* B' d of alpha values that lie `step` apart, in place. */
INLINE void input_transform(lanes *d, int step, int tile) {
    const lanes d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    if (tile == 2) {
        d[0] = d0 - d2;
        d[step] = d1 + d2;
        d[2 * step] = d2 - d1;
        d[3 * step] = d1 - d3;
        return;
    }
    const lanes d4 = d[4 * step], d5 = d[5 * step];
    d[0] = 4.0f * d0 - 5.0f * d2 + d4;
    d[step] = d3 + d4 - 4.0f * (d1 + d2);
    d[2 * step] = d4 - d3 + 4.0f * (d1 - d2);
    d[3 * step] = d4 - d2 + 2.0f * (d3 - d1);
    d[4 * step] = d4 - d2 - 2.0f * (d3 - d1);
    d[5 * step] = 4.0f * d1 - 5.0f * d3 + d5;
}

/* A' m of alpha values that lie `step` apart, into the first `tile` of them. */
INLINE void output_transform(lanes *m, int step, int tile) {
    const lanes sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
    if (tile == 2) {
        m[0] += sum;
        m[step] = difference - m[3 * step];
        return;
    }
    const lanes sum2 = m[3 * step] + m[4 * step], difference2 = m[3 * step] - m[4 * step];
    m[0] += sum + sum2;
    m[step] = difference + 2.0f * difference2;
    m[2 * step] = sum + 4.0f * sum2;
    m[3 * step] = difference + 8.0f * difference2 + m[5 * step];
}

/* The inputs of a tile, zeros outside of the plane. */
INLINE void inputs_load(const rt_winograd_tile *at, lanes *d, int alpha, int part, bool in_bytes) {
    for (int i = 0; i < alpha; i++) {
        int64_t row = at->top + i;
        bool row_inside = row >= 0 && row < at->height;
        for (int j = 0; j < alpha; j++) {
            int64_t column = at->left + j;
            bool inside = row_inside && column >= 0 && column < at->width;
            int64_t place = (row * at->width + column) * RT_BLOCK + part;
            d[i * alpha + j] = !inside    ? (lanes){0}
                               : in_bytes ? bytes_load(at->x_bytes + place) - at->zero
                                          : load(at->x + place);
        }
    }
}

/* domain = B' d B */
INLINE void input_compute(const rt_winograd_tile *at, int tile, bool in_bytes) {
    const int alpha = tile + 2;
    for (int part = 0; part < RT_BLOCK; part += LANES) {
        lanes d[RT_WINOGRAD_ALPHA * RT_WINOGRAD_ALPHA];
        inputs_load(at, d, alpha, part, in_bytes);
        for (int j = 0; j < alpha; j++) input_transform(d + j, alpha, tile);
        for (int i = 0; i < alpha; i++) {
            input_transform(d + i * alpha, 1, tile);
            for (int j = 0; j < alpha; j++) store(at->domain + (i * alpha + j) * at->step + part, d[i * alpha + j]);
        }
    }
}

/* Completes one row of a tile's outputs and stores those within the plane. */
INLINE void outputs_store(const rt_winograd_tile *at, const lanes *values, int64_t row, int tile, int part) {
    lanes bias = load(at->bias + part);
    lanes low = lower_bound(at->activation, at->a), high = upper_bound(at->activation, at->b);
    for (int j = 0; j < tile && at->left + j < at->width; j++) {
        int64_t out = (row * at->width + at->left + j) * RT_BLOCK + part;
        lanes value = values[j] + bias;
        if (at->y_bytes != NULL) {
            bytes_store(at->y_bytes + out, clamp(value, (lanes){0} + at->a, (lanes){0} + at->b), (int32_t)at->a);
            continue;
        }
        if (at->residual != NULL) value += load(at->residual + out);
        store(at->y + out, clamp(value, low, high));
        if (at->activation != RT_UNARY_CLAMP) at->tiles->apply(at->activation, at->a, at->b, at->y + out, LANES);
    }
}

/* y = activation(A' domain A + bias + residual) */
INLINE void output_compute(const rt_winograd_tile *at, int tile) {
    const int alpha = tile + 2;
    for (int part = 0; part < RT_BLOCK; part += LANES) {
        lanes d[RT_WINOGRAD_ALPHA * RT_WINOGRAD_ALPHA];
        for (int j = 0; j < alpha; j++) {
            for (int i = 0; i < alpha; i++) d[i * alpha + j] = load(at->domain + (i * alpha + j) * at->step + part);
            output_transform(d + j, alpha, tile);
        }
        for (int i = 0; i < tile && at->top + i < at->height; i++) {
            output_transform(d + i * alpha, 1, tile);
            outputs_store(at, d + i * alpha, at->top + i, tile, part);
        }
    }
}

void NAME(rt_lanes_winograd2_input_)(const rt_winograd_tile *tile) {
    tile->x_bytes != NULL ? input_compute(tile, 2, true) : input_compute(tile, 2, false);
}

void NAME(rt_lanes_winograd4_input_)(const rt_winograd_tile *tile) {
    tile->x_bytes != NULL ? input_compute(tile, 4, true) : input_compute(tile, 4, false);
}

void NAME(rt_lanes_winograd2_output_)(const rt_winograd_tile *tile) { output_compute(tile, 2); }
void NAME(rt_lanes_winograd4_output_)(const rt_winograd_tile *tile) { output_compute(tile, 4); }
