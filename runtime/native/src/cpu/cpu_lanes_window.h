/* Which taps of a window lie within the input: what loops over windows share.
 * Without state. */
#ifndef RT_CPU_LANES_WINDOW_H
#define RT_CPU_LANES_WINDOW_H

#include "cpu_lanes.h"

/* Taps of one output pixel, or of some neighbours that share them. A value. */
typedef struct {
    int64_t top, left; /* of the window in the input */
    rt_tap_range rows, columns;
} taps;

/* The rows of taps of an output row, with all columns. */
INLINE taps row_taps(const rt_blocked_window *window, int64_t row) {
    taps at = {.top = row * window->stride_h - window->pad_t, .columns = {0, window->k_w}};
    at.rows = rt_taps_inside(at.top, window->k_h, window->dil_h, window->in_h);
    return at;
}

/* Moves to an output of the row, none of whose columns is outside. */
INLINE void column_set(const rt_blocked_window *window, int64_t column, taps *at) {
    at->left = column * window->stride_w - window->pad_l;
}

/* Moves to any output of the row. */
INLINE void edge_set(const rt_blocked_window *window, int64_t column, taps *at) {
    column_set(window, column, at);
    at->columns = rt_taps_inside(at->left, window->k_w, window->dil_w, window->in_w);
}

/* Moves to the next output of the row; `inside`: what columns_inside says. */
INLINE void column_move(const rt_blocked_window *window, int64_t column, rt_tap_range inside, taps *at) {
    if (column == inside.first) at->columns = (rt_tap_range){0, window->k_w};
    if (column < inside.first || column >= inside.end) {
        edge_set(window, column, at);
    } else {
        column_set(window, column, at);
    }
}

/* The outputs of a row whose windows lie within its columns; may be empty. */
INLINE rt_tap_range columns_inside(const rt_blocked_window *window) {
    int64_t last = window->in_w - 1 - (window->k_w - 1) * window->dil_w + window->pad_l;
    int64_t first = (window->pad_l + window->stride_w - 1) / window->stride_w;
    int64_t end = last < 0 ? 0 : last / window->stride_w + 1;
    return (rt_tap_range){first, end < window->out_w ? end : window->out_w};
}

/* Computes one register of `pixels` neighbours of a depthwise convolution, whose number, columns of taps, stride and
 * dilation are constants where it is called for speed. */
typedef void depthwise_register(const void *rows, const taps *at, int64_t out, int part, int pixels,
                                rt_tap_range columns, int64_t k_w, int64_t stride, int64_t dil);

/* Any pixel; those of a 3x3 window that lacks its first or last column at the edge of the input without a loop. */
INLINE void depthwise_at_edge(const rt_blocked_window *w, const void *rows, taps *at, int64_t row, int64_t column,
                              depthwise_register *compute) {
    const rt_tap_range first_two = {0, 2}, last_two = {1, 3};
    int64_t out = row * w->out_w + column;
    edge_set(w, column, at);
    bool is_3 = w->k_w == 3 && w->dil_w == 1;
    for (int part = 0; part < RT_BLOCK; part += LANES) {
        if (is_3 && at->columns.first == 1 && at->columns.end == 3) {
            compute(rows, at, out, part, 1, last_two, 3, 1, 1);
        } else if (is_3 && at->columns.first == 0 && at->columns.end == 2) {
            compute(rows, at, out, part, 1, first_two, 3, 1, 1);
        } else {
            compute(rows, at, out, part, 1, at->columns, w->k_w, w->stride_w, w->dil_w);
        }
    }
}

/* `pixels` neighbours from (row, column) on, no column of whose taps is outside. */
INLINE void depthwise_inside(const rt_blocked_window *w, const void *rows, taps *at, int64_t row, int64_t column,
                             int pixels, depthwise_register *compute) {
    const rt_tap_range three = {0, 3}, all = {0, w->k_w};
    int64_t out = row * w->out_w + column;
    bool is_3 = w->k_w == 3 && w->dil_w == 1;
    column_set(w, column, at);
    for (int part = 0; part < RT_BLOCK; part += LANES) {
        if (is_3 && w->stride_w == 1) {
            compute(rows, at, out, part, pixels, three, 3, 1, 1);
        } else if (is_3 && w->stride_w == 2) {
            compute(rows, at, out, part, pixels, three, 3, 2, 1);
        } else {
            compute(rows, at, out, part, pixels, all, w->k_w, w->stride_w, w->dil_w);
        }
    }
}

/* One row of outputs: its edges pixel by pixel by `edge`; the last `pixels` inside, by `some`, may overlap those
 * before. */
INLINE void depthwise_row(const rt_blocked_window *w, const void *rows, int64_t row, rt_tap_range inside, int pixels,
                          void (*edge)(const void *rows, taps *at, int64_t row, int64_t column),
                          void (*some)(const void *rows, taps *at, int64_t row, int64_t column)) {
    int64_t column = 0;
    taps at = row_taps(w, row);
    bool is_wide = inside.end - inside.first >= pixels;
    for (; column < (is_wide ? inside.first : w->out_w); column++) edge(rows, &at, row, column);
    if (!is_wide) return;
    for (; column < inside.end; column += pixels) {
        some(rows, &at, row, column + pixels <= inside.end ? column : inside.end - pixels);
    }
    for (column = inside.end; column < w->out_w; column++) edge(rows, &at, row, column);
}

#endif
