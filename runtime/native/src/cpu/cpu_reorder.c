/* reorder: a tensor from one order of its elements to another (RT_ORDER_*). A turn is one line of one image; lanes
 * behind the last channel become zero. */
#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "cpu_arguments.h"
#include "cpu_blocked.h"

enum { X = RT_REORDER_X, Y = RT_REORDER_Y };

/* Where the elements of a line lie: elements from one block of channels, pixel and channel of a block to the next. A
 * value. */
typedef struct {
    int64_t start, block, pixel, channel;
} line;

/* Elements of the tensor in an order. */
static uint64_t elements(const rt_reorder_args *d, uint32_t order, uint32_t block) {
    uint64_t pixels = rt_product((uint64_t)d->h, (uint64_t)d->w);
    return rt_blocked_elements((uint64_t)d->batch, (uint64_t)d->channels, pixels, order == RT_ORDER_BLOCKED ? block : 1);
}

static const char *reorder_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_reorder_args d = rt_reorder_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    uint64_t y = elements(&d, call->codes.to, call->codes.block);
    if (rt_product((uint64_t)d.batch, (uint64_t)d.h) > UINT32_MAX) return "too many lines";
    if (!rt_flat_fits(&call->tensors[X], elements(&d, call->codes.from, call->codes.block)))
        return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[Y], y)) return "the output exceeds its pool";
    needs->work = y;
    return NULL;
}

/* A line (of the height) of an image. */
static line line_of(const rt_reorder_args *d, uint32_t order, int64_t lanes, int64_t image, int64_t row) {
    int64_t width = d->w, pixels = d->h * width, channels = d->channels;
    int64_t blocks = (channels + lanes - 1) / lanes;
    switch (order) {
        case RT_ORDER_NHWC: return (line){(image * d->h + row) * width * channels, lanes, channels, 1};
        case RT_ORDER_BLOCKED: return (line){(image * blocks * pixels + row * width) * lanes, pixels * lanes, lanes, 1};
        default: return (line){image * channels * pixels + row * width, lanes * pixels, 1, pixels};
    }
}

/* Copies one block of a line's channels: pixel by pixel, or, where a pixel's channels lie far apart on both sides,
 * channel by channel. */
static void block_copy(const float *x, const line *from, float *y, const line *to, int64_t width, int64_t count) {
    if (from->channel == 1 && to->channel == 1) {
        for (int64_t i = 0; i < width; i++) {
            memmove(y + i * to->pixel, x + i * from->pixel, (size_t)count * sizeof *y);
        }
        return;
    }
    for (int64_t i = 0; i < width; i++) {
        for (int64_t c = 0; c < count; c++) y[i * to->pixel + c * to->channel] = x[i * from->pixel + c * from->channel];
    }
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    rt_reorder_args d = rt_reorder_args_of(call);
    int64_t lanes = call->codes.block, image = turn / d.h, row = turn % d.h;
    line from = line_of(&d, call->codes.from, lanes, image, row), to = line_of(&d, call->codes.to, lanes, image, row);
    const float *x = rt_floats(&call->tensors[X]) + from.start;
    float *y = rt_floats(&call->tensors[Y]) + to.start;
    (void)worker;
    for (int64_t channel = 0; channel < d.channels; channel += lanes, x += from.block, y += to.block) {
        int64_t count = d.channels - channel < lanes ? d.channels - channel : lanes;
        block_copy(x, &from, y, &to, d.w, count);
        if (call->codes.to != RT_ORDER_BLOCKED || count == lanes) continue;
        for (int64_t i = 0; i < d.w; i++) memset(y + i * lanes + count, 0, (size_t)(lanes - count) * sizeof *y);
    }
}

static void reorder_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_reorder_args d = rt_reorder_args_of(call);
    rt_workers_run(workers, (uint32_t)d.batch * (uint32_t)d.h, turn_run, call);
}

const rt_cpu_operator rt_cpu_reorder = {RT_REORDER_ROW, .check = reorder_check, .run = reorder_run};
