/* resize_nearest, resize_bilinear: pixels of NHWC views. A turn is a line of output pixels of all images. The _check and
 * _run functions keep the contract of rt_cpu_operator. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/system/arithmetic.h"

/* Checks the views of both operators, and fills the work. Returns the problem, or NULL. */
static const char *resize_check(const rt_image_sizes *d, const rt_cpu_tensor *x, const rt_cpu_tensor *y,
                                rt_cpu_needs *needs) {
    needs->work = rt_product(rt_product3(d->batch, d->out_h, d->out_w), (uint64_t)d->channels);
    return rt_images_check(d, x, y);
}

/* --- nearest: two tables hold the input row of each output row, and the input column of each output column --- */

static const char *nearest_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_resize_nearest_args d = rt_resize_nearest_args_of(call);
    const rt_image_sizes sizes = {d.batch, d.in_h, d.in_w, d.channels, d.out_h, d.out_w};
    const rt_cpu_tensor *tensors = call->tensors;
    if (!rt_flat_fits(&tensors[RT_RESIZE_NEAREST_ROWS], (uint64_t)d.out_h) ||
        !rt_flat_fits(&tensors[RT_RESIZE_NEAREST_COLUMNS], (uint64_t)d.out_w)) {
        return "a table exceeds its pool";
    }
    return resize_check(&sizes, &tensors[RT_RESIZE_NEAREST_X], &tensors[RT_RESIZE_NEAREST_Y], needs);
}

/* An index of a table, drawn into 0 .. size - 1: what the plan says is not trusted. */
static int64_t table_index(const rt_cpu_tensor *table, int64_t at, int32_t size) {
    int32_t index = ((const int32_t *)table->data)[at];
    if (index < 0) return 0;
    return index < size ? index : size - 1;
}

/* Copies one line of pixels; memmove, since input and output may lie in one pool. */
static void nearest_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    rt_resize_nearest_args d = rt_resize_nearest_args_of(call);
    const rt_cpu_tensor *x = &call->tensors[RT_RESIZE_NEAREST_X], *y = &call->tensors[RT_RESIZE_NEAREST_Y];
    (void)worker;
    uint32_t image = turn / (uint32_t)d.out_h, line = turn % (uint32_t)d.out_h;
    int64_t row = (int64_t)image * d.in_h + table_index(&call->tensors[RT_RESIZE_NEAREST_ROWS], line, d.in_h);
    for (int64_t i = 0; i < d.out_w; i++) {
        int64_t column = table_index(&call->tensors[RT_RESIZE_NEAREST_COLUMNS], i, d.in_w);
        float *target = rt_floats(y) + ((int64_t)turn * d.out_w + i) * y->stride;
        memmove(target, rt_floats(x) + (row * d.in_w + column) * x->stride, (size_t)d.channels * sizeof *target);
    }
}

static void nearest_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_resize_nearest_args d = rt_resize_nearest_args_of(call);
    rt_workers_run(workers, (uint32_t)d.batch * (uint32_t)d.out_h, nearest_turn, call);
}

/* --- bilinear: scale and shift make an input coordinate of an output index --- */

/* Coordinates need no check: whatever the floats make of them is drawn into the image. */
static const char *bilinear_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_resize_bilinear_args d = rt_resize_bilinear_args_of(call);
    const rt_image_sizes sizes = {d.batch, d.in_h, d.in_w, d.channels, d.out_h, d.out_w};
    return resize_check(&sizes, &call->tensors[RT_RESIZE_BILINEAR_X], &call->tensors[RT_RESIZE_BILINEAR_Y], needs);
}

/* A coordinate drawn into 0 .. size - 1; a NaN goes to 0. */
static float drawn_in(float coordinate, int32_t size) {
    if (!(coordinate > 0.0f)) return 0.0f;
    return coordinate < (float)(size - 1) ? coordinate : (float)(size - 1);
}

/* Index of a drawn-in coordinate; conversion to float may have rounded it up. */
static int64_t index_of(float coordinate, int32_t size) {
    int64_t index = (int64_t)coordinate;
    return index < size ? index : size - 1;
}

/* One line of output pixels. */
typedef struct {
    const rt_cpu_call *call;
    rt_resize_bilinear_args d;
    int64_t image; /* first line of the input image */
    float *y;
} resize_line;

/* The first channel of a pixel of the line's image, which must have it. */
static const float *input_pixel(const resize_line *line, int64_t row, int64_t column) {
    const rt_cpu_tensor *x = &line->call->tensors[RT_RESIZE_BILINEAR_X];
    return rt_floats(x) + ((line->image + row) * line->d.in_w + column) * x->stride;
}

/* Interpolates one output pixel from the four around its coordinates; at an edge two of them are the same. */
static void bilinear_pixel(const resize_line *line, float row, float column, float *y) {
    float h = drawn_in(row, line->d.in_h), w = drawn_in(column, line->d.in_w);
    int64_t top = index_of(h, line->d.in_h), left = index_of(w, line->d.in_w);
    int64_t bottom = top + 1 < line->d.in_h ? top + 1 : top;
    int64_t right = left + 1 < line->d.in_w ? left + 1 : left;
    const float *a = input_pixel(line, top, left), *b = input_pixel(line, top, right);
    const float *c = input_pixel(line, bottom, left), *e = input_pixel(line, bottom, right);
    float down = h - (float)top, across = w - (float)left;
    for (int32_t i = 0; i < line->d.channels; i++) {
        float above = a[i] + (b[i] - a[i]) * across;
        float below = c[i] + (e[i] - c[i]) * across;
        y[i] = above + (below - above) * down;
    }
}

/* One line; its row's coordinate is the same for all pixels. */
static void bilinear_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    resize_line line = {.call = call, .d = rt_resize_bilinear_args_of(call)};
    const rt_cpu_tensor *y = &call->tensors[RT_RESIZE_BILINEAR_Y];
    (void)worker;
    line.image = (int64_t)(turn / (uint32_t)line.d.out_h) * line.d.in_h;
    float row = (float)(turn % (uint32_t)line.d.out_h) * line.d.scale_h + line.d.shift_h;
    for (int64_t i = 0; i < line.d.out_w; i++) {
        float column = (float)i * line.d.scale_w + line.d.shift_w;
        bilinear_pixel(&line, row, column, rt_floats(y) + ((int64_t)turn * line.d.out_w + i) * y->stride);
    }
}

static void bilinear_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_resize_bilinear_args d = rt_resize_bilinear_args_of(call);
    rt_workers_run(workers, (uint32_t)d.batch * (uint32_t)d.out_h, bilinear_turn, call);
}

const rt_cpu_operator rt_cpu_resize_nearest = {RT_RESIZE_NEAREST_ROW, .check = nearest_check, .run = nearest_run};
const rt_cpu_operator rt_cpu_resize_bilinear = {RT_RESIZE_BILINEAR_ROW, .check = bilinear_check, .run = bilinear_run};
