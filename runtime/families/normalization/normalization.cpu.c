/* normalization: of groups of channels over all pixels; a row of a matrix is an image of one pixel and one group.
 *
 * y = activation((x - mean) / sqrt(variance + epsilon) * s[c] + t[c]). Element (b, c, p) of a tensor is at
 * b * batch_stride + c * channel_stride + p * pixel_stride. Groups are divided among the workers. The _check and _run
 * functions keep the contract of rt_cpu_operator.
 */
#include <math.h>
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/cpu/cpu_tile.h"

enum { X = RT_NORMALIZATION_X, S = RT_NORMALIZATION_S, T = RT_NORMALIZATION_T, Y = RT_NORMALIZATION_Y };
typedef rt_normalization_args dims;

static const char *normalization_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = rt_normalization_args_of(call);
    uint64_t all_channels = rt_product((uint64_t)d.groups, (uint64_t)d.channels);
    uint64_t elements = rt_product(rt_product((uint64_t)d.batch, all_channels), (uint64_t)d.pixels);
    if (elements > INT32_MAX) return "too many elements";
    const int32_t extents[] = {d.batch, (int32_t)all_channels, d.pixels};
    const int32_t x_strides[] = {d.x_batch_stride, d.x_channel_stride, d.x_pixel_stride};
    const int32_t y_strides[] = {d.y_batch_stride, d.y_channel_stride, d.y_pixel_stride};
    if (!rt_nest_fits(&call->tensors[X], extents, x_strides, 3)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[S], all_channels)) return "the scale exceeds its pool";
    if (!rt_flat_fits(&call->tensors[T], all_channels)) return "the shift exceeds its pool";
    if (!rt_nest_fits(&call->tensors[Y], extents, y_strides, 3)) return "the output exceeds its pool";
    needs->work = elements;
    return NULL;
}

/* Sum of x - mean, or of its square, over a run. */
static float run_sum(const rt_tile_kernels *tiles, const float *x, int64_t count, int64_t stride, float mean, bool squares) {
    if (stride == 1) return (squares ? tiles->squares : tiles->sum)(x, (uint64_t)count, mean);
    float sum = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        float v = x[i * stride] - mean;
        sum += squares ? v * v : v;
    }
    return sum;
}

/* The same over all runs of a group: along the channels where these are neighbours, else along the pixels. */
static float group_sum(const rt_tile_kernels *tiles, const dims *d, const float *x, float mean, bool squares) {
    bool by_channel = d->x_channel_stride == 1;
    int64_t runs = by_channel ? d->pixels : d->channels, length = by_channel ? d->channels : d->pixels;
    int64_t run_stride = by_channel ? d->x_pixel_stride : d->x_channel_stride;
    int64_t stride = by_channel ? d->x_channel_stride : d->x_pixel_stride;
    float sum = 0.0f;
    for (int64_t r = 0; r < runs; r++) sum += run_sum(tiles, x + r * run_stride, length, stride, mean, squares);
    return sum;
}

/* The activation over the channels of a pixel, unless it is none: a clamp without bounds. */
static void channels_activate(const rt_cpu_call *call, const dims *d, float *y) {
    uint32_t activation = call->codes.activation;
    float a = d->act_a, b = d->act_b;
    if (activation == RT_UNARY_CLAMP && a == -INFINITY && b == INFINITY) return;
    if (d->y_channel_stride == 1) {
        call->tiles->apply(activation, a, b, y, (uint64_t)d->channels);
        return;
    }
    for (int64_t c = 0; c < d->channels; c++) {
        float *v = y + c * d->y_channel_stride;
        *v = rt_activate(activation, *v, a, b);
    }
}

/* The results of a pixel's channels, before the activation. */
static void channels_normalize(const rt_tile_kernels *tiles, const dims *d, const float *x, const float *s, const float *t,
                               float mean, float factor, float *y) {
    if (d->x_channel_stride == 1 && d->y_channel_stride == 1) {
        tiles->affine(x, s, t, mean, factor, (uint64_t)d->channels, y);
        return;
    }
    for (int64_t c = 0; c < d->channels; c++) {
        y[c * d->y_channel_stride] = (x[c * d->x_channel_stride] - mean) * factor * s[c] + t[c];
    }
}

/* A turn: one group of one image. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    dims d = rt_normalization_args_of(call);
    int64_t b = turn / (uint32_t)d.groups, first = turn % (uint32_t)d.groups * (int64_t)d.channels;
    const float *x = rt_floats(&call->tensors[X]) + b * d.x_batch_stride + first * d.x_channel_stride;
    const float *s = rt_floats(&call->tensors[S]) + first, *t = rt_floats(&call->tensors[T]) + first;
    float *y = rt_floats(&call->tensors[Y]) + b * d.y_batch_stride + first * d.y_channel_stride;
    float count = (float)d.channels * (float)d.pixels;
    float mean = d.centered ? group_sum(call->tiles, &d, x, 0.0f, false) / count : 0.0f;
    float factor = 1.0f / sqrtf(group_sum(call->tiles, &d, x, mean, true) / count + d.epsilon);
    (void)worker;
    for (int64_t p = 0; p < d.pixels; p++) {
        float *to = y + p * d.y_pixel_stride;
        channels_normalize(call->tiles, &d, x + p * d.x_pixel_stride, s, t, mean, factor, to);
        channels_activate(call, &d, to);
    }
}

static void normalization_run(const rt_cpu_call *call, rt_workers *workers) {
    dims d = rt_normalization_args_of(call);
    rt_workers_run(workers, (uint32_t)d.batch * (uint32_t)d.groups, turn_run, call);
}

const rt_cpu_operator rt_cpu_normalization = {
    RT_NORMALIZATION_ROW, .check = normalization_check, .run = normalization_run};
