#include "cpu_rows.h"

#include <stdbool.h>

rt_window rt_window_of_pixels(const float *x, int64_t x_stride, int64_t pixels) {
    return (rt_window){.x = x,
                       .x_stride = x_stride,
                       .in_h = 1,
                       .in_w = pixels,
                       .out_h = 1,
                       .out_w = pixels,
                       .k_h = 1,
                       .k_w = 1,
                       .stride_h = 1,
                       .stride_w = 1,
                       .dil_h = 1,
                       .dil_w = 1};
}

/* Fills the pointers of one output pixel, one for each tap, `width` apart; a tap in the padding points at the zeros. */
static void pixel_fill(const rt_window *window, uint64_t pixel, uint64_t width, const float **rows) {
    uint64_t line = pixel / (uint64_t)window->out_w;
    int64_t column = (int64_t)(pixel % (uint64_t)window->out_w) * window->stride_w - window->pad_l;
    int64_t top = (int64_t)(line % (uint64_t)window->out_h) * window->stride_h - window->pad_t;
    int64_t image = (int64_t)(line / (uint64_t)window->out_h) * window->in_h;
    for (int64_t i = 0; i < window->k_h; i++) {
        int64_t row = top + i * window->dil_h;
        bool row_inside = row >= 0 && row < window->in_h;
        int64_t line_start = (image + row) * window->in_w;
        for (int64_t j = 0; j < window->k_w; j++, rows += width) {
            int64_t at = column + j * window->dil_w;
            bool inside = row_inside && at >= 0 && at < window->in_w;
            *rows = inside ? window->x + (line_start + at) * window->x_stride : window->zeros;
        }
    }
}

void rt_rows_fill(const rt_window *window, uint64_t first, uint64_t pixels, uint64_t width, const float **rows) {
    for (uint64_t p = 0; p < width; p++) pixel_fill(window, first + (p < pixels ? p : pixels - 1), width, rows + p);
}
