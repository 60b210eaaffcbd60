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

#endif
