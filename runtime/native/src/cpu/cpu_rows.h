/* Pointers at the input pixels under a window, instead of a copy of them. Without state. */
#ifndef RT_CPU_ROWS_H
#define RT_CPU_ROWS_H

#include <stdint.h>

/* A window that slides over the pixels of images; taps in the padding read `zeros`, as many as a tap
 * has channels. A value. */
typedef struct {
    const float *x, *zeros;
    int64_t x_stride; /* elements from pixel to pixel */
    int64_t in_h, in_w, out_h, out_w, k_h, k_w, stride_h, stride_w, pad_t, pad_l, dil_h, dil_w;
} rt_window;

/* A window of one tap that stays on its pixel: pixels in a row. */
rt_window rt_window_of_pixels(const float *x, int64_t x_stride, int64_t pixels);

/* Pointers of every tap of `pixels` output pixels from `first` on: rows[tap * width + pixel]. The last of the `width`
 * columns repeat the last pixel. */
void rt_rows_fill(const rt_window *window, uint64_t first, uint64_t pixels, uint64_t width, const float **rows);

#endif
