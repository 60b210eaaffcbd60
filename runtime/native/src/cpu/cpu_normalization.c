/* normalization: of groups of channels over all pixels; a row of a matrix is an image of one pixel and one group.
 *
 * y = activation((x - mean) / sqrt(variance + epsilon) * s[c] + t[c]). Element (b, c, p) of a tensor is at
 * b * batch_stride + c * channel_stride + p * pixel_stride. Groups are divided among the workers. The _check and _run
 * functions keep the contract of rt_cpu_operator.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "cpu_math.h"
#include "cpu_operator.h"

enum { X, S, T, Y, PARTS = 16 };

/* The ints in the order of the arguments; strides are those of batch, channel and pixel. */
typedef struct {
    int32_t batch, groups, channels, pixels, x[3], y[3], centered;
} dims;

static dims dims_read(const rt_cpu_call *call) {
    dims d;
    memcpy(&d, call->ints, sizeof d);
    return d;
}

static const char *normalization_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = dims_read(call);
    if (!rt_all_at_least(call->ints, 10, 1)) return "a size is out of range";
    uint64_t all_channels = rt_product((uint64_t)d.groups, (uint64_t)d.channels);
    uint64_t elements = rt_product(rt_product((uint64_t)d.batch, all_channels), (uint64_t)d.pixels);
    if (elements > INT32_MAX) return "too many elements";
    const int32_t extents[] = {d.batch, (int32_t)all_channels, d.pixels};
    if (!rt_nest_fits(&call->tensors[X], extents, d.x, 3)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[S], all_channels)) return "the scale exceeds its pool";
    if (!rt_flat_fits(&call->tensors[T], all_channels)) return "the shift exceeds its pool";
    if (!rt_nest_fits(&call->tensors[Y], extents, d.y, 3)) return "the output exceeds its pool";
    needs->work = elements;
    return NULL;
}

/* Sum of x - mean, or of its square, over a run. PARTS sums at a time, which the compiler keeps in registers. */
static float run_sum(const float *x, int64_t count, int64_t stride, float mean, bool squares) {
    float part[PARTS] = {0}, sum = 0.0f;
    int64_t whole = stride == 1 ? count / PARTS * PARTS : 0;
    for (int64_t i = 0; i < whole; i += PARTS) {
        for (int k = 0; k < PARTS; k++) {
            float v = x[i + k] - mean;
            part[k] += squares ? v * v : v;
        }
    }
    for (int k = 0; k < PARTS; k++) sum += part[k];
    for (int64_t i = whole; i < count; i++) {
        float v = x[i * stride] - mean;
        sum += squares ? v * v : v;
    }
    return sum;
}

/* The same over all runs of a group: along the channels where these are neighbours, else along the pixels. */
static float group_sum(const dims *d, const float *x, float mean, bool squares) {
    bool by_channel = d->x[1] == 1;
    int64_t runs = by_channel ? d->pixels : d->channels, length = by_channel ? d->channels : d->pixels;
    int64_t run_stride = d->x[by_channel ? 2 : 1], stride = d->x[by_channel ? 1 : 2];
    float sum = 0.0f;
    for (int64_t r = 0; r < runs; r++) sum += run_sum(x + r * run_stride, length, stride, mean, squares);
    return sum;
}

/* The activation over the channels of a pixel, unless it is none: a clamp without bounds. */
static void channels_activate(const rt_cpu_call *call, float *y, int64_t channels, int64_t stride) {
    float a = call->floats[1], b = call->floats[2];
    if (call->codes.activation == RT_ACTIVATION_CLAMP && a == -INFINITY && b == INFINITY) return;
    for (int64_t c = 0; c < channels; c++) y[c * stride] = rt_activate(call->codes.activation, y[c * stride], a, b);
}

/* A turn: one group of one image. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    dims d = dims_read(call);
    int64_t b = turn / (uint32_t)d.groups, first = turn % (uint32_t)d.groups * (int64_t)d.channels;
    const float *x = call->tensors[X].data + b * d.x[0] + first * d.x[1];
    const float *s = call->tensors[S].data + first, *t = call->tensors[T].data + first;
    float *y = call->tensors[Y].data + b * d.y[0] + first * d.y[1];
    float count = (float)d.channels * (float)d.pixels;
    float mean = d.centered ? group_sum(&d, x, 0.0f, false) / count : 0.0f;
    float factor = 1.0f / sqrtf(group_sum(&d, x, mean, true) / count + call->floats[0]);
    (void)worker;
    for (int64_t p = 0; p < d.pixels; p++) {
        const float *from = x + p * d.x[2];
        float *to = y + p * d.y[2];
        for (int64_t c = 0; c < d.channels; c++) to[c * d.y[1]] = (from[c * d.x[1]] - mean) * factor * s[c] + t[c];
        channels_activate(call, to, d.channels, d.y[1]);
    }
}

static void normalization_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_workers_run(workers, (uint32_t)call->ints[0] * (uint32_t)call->ints[1], turn_run, call);
}

const rt_cpu_operator rt_cpu_normalization = {
    "normalization", "fwwf", sizeof(dims) / sizeof(int32_t), 3, normalization_check, normalization_run, NULL};
