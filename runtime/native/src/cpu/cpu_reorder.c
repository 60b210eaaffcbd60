/* reorder: a tensor from one order of its elements to another (RT_ORDER_*). A turn is one line of one image; lanes
 * behind the last channel become zero.
 *
 * quantized_reorder: the same from floats to bytes where BYTES is 1, else from bytes to floats; a byte u stands for
 * step * (u - ZERO). Bytes behind the last channel may have any value. */
#include <math.h>
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

/* --- quantized_reorder --- */

static const char *quantized_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_quantized_reorder_args d = rt_quantized_reorder_args_of(call);
    const rt_reorder_args sizes = {d.batch, d.channels, d.h, d.w};
    const rt_cpu_tensor *floats = &call->tensors[call->codes.bytes ? X : Y];
    uint64_t x_bytes = call->codes.bytes ? sizeof(float) : 1, y_bytes = call->codes.bytes ? 1 : sizeof(float);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (!(d.step > 0.0f && d.step < INFINITY)) return "its step is no positive number";
    uint64_t x = elements(&sizes, call->codes.from, call->codes.block);
    uint64_t y = elements(&sizes, call->codes.to, call->codes.block);
    if (rt_product((uint64_t)d.batch, (uint64_t)d.h) > UINT32_MAX) return "too many lines";
    if (floats->offset % sizeof(float) != 0 || !rt_flat_fits(&call->tensors[X], rt_product(x, x_bytes)))
        return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[Y], rt_product(y, y_bytes))) return "the output exceeds its pool";
    needs->work = y;
    return NULL;
}

enum { TOGETHER = 64, QUAD = 4 };

/* How floats become bytes. A value. */
typedef struct {
    const rt_blocked_kernels *kernels;
    float per_step;
    int32_t zero;
} rounding;

/* Elements that lie `step` and `apart` from each other, some together. */
static void elements_quantize(const rounding *to_bytes, const float *x, int64_t step, uint8_t *y, int64_t apart,
                              int64_t count) {
    float from[TOGETHER] = {0};
    uint8_t to[TOGETHER];
    for (int64_t done = 0; done < count; done += TOGETHER) {
        int64_t some = count - done < TOGETHER ? count - done : TOGETHER;
        const bool is_there = step == 1 && some == TOGETHER;
        for (int64_t i = 0; i < some && !is_there; i++) from[i] = x[(done + i) * step];
        to_bytes->kernels->quantize(is_there ? x + done : from, to_bytes->per_step, to_bytes->zero, TOGETHER, to);
        for (int64_t i = 0; i < some; i++) y[(done + i) * apart] = to[i];
    }
}

/* Up to four channels of a line whose pixels or channels are neighbours, four bytes at once for each pixel. */
static void quads_quantize(const rounding *to_bytes, const float *x, const line *from, uint8_t *y, const line *to,
                           int64_t width, int64_t count) {
    const int64_t plane = from->channel == 1 ? 0 : from->channel;
    uint32_t quads[TOGETHER];
    for (int64_t done = 0; done < width; done += TOGETHER) {
        const int64_t some = width - done < TOGETHER ? width - done : TOGETHER;
        to_bytes->kernels->quads(x + done * from->pixel, plane, count, to_bytes->per_step, to_bytes->zero, some, quads);
        for (int64_t i = 0; i < some; i++) memcpy(y + (done + i) * to->pixel, quads + i, sizeof *quads);
    }
}

/* Channels of a line; few into a block are there at once, others one by one. */
static void block_quantize(const rounding *to_bytes, const float *x, const line *from, uint8_t *y, const line *to,
                           int64_t width, int64_t count) {
    const bool are_neighbours = from->pixel == 1 || (from->channel == 1 && from->pixel == count);
    if (count <= QUAD && to->channel == 1 && to->pixel > QUAD && are_neighbours) {
        quads_quantize(to_bytes, x, from, y, to, width, count);
        return;
    }
    for (int64_t c = 0; c < count; c++) {
        elements_quantize(to_bytes, x + c * from->channel, from->pixel, y + c * to->channel, to->pixel, width);
    }
}

/* Blocks of pixels at once where these are neighbours on both sides, and what is left one by one. */
static void block_dequantize(const rt_cpu_call *call, const uint8_t *x, const line *from, float *y, const line *to,
                             int64_t width, int64_t count, float step) {
    const int64_t block = call->codes.block, whole = from->pixel == 1 && to->pixel == 1 ? width / block * block : 0;
    const int32_t zero = (int32_t)call->codes.zero;
    const rt_blocked_kernels *kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    for (int64_t c = 0; c < count && whole; c++) kernels->dequantize(x + c * from->channel, step, zero, whole, y + c * to->channel);
    for (int64_t i = whole; i < width; i++) {
        const uint8_t *source = x + i * from->pixel;
        for (int64_t c = 0; c < count; c++) y[i * to->pixel + c * to->channel] = (float)(source[c * from->channel] - zero) * step;
    }
}

/* Up to a block of channels of a line. */
static void block_convert(const rt_cpu_call *call, const rt_quantized_reorder_args *d, const line *from, const line *to,
                          int64_t count) {
    int64_t lanes = call->codes.block, missing = call->codes.to == RT_ORDER_BLOCKED ? lanes - count : 0;
    if (call->codes.bytes) {
        uint8_t *y = (uint8_t *)call->tensors[Y].data + to->start;
        const rt_blocked_kernels *kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
        const rounding to_bytes = {kernels, 1.0f / d->step, (int32_t)call->codes.zero};
        block_quantize(&to_bytes, (const float *)call->tensors[X].data + from->start, from, y, to, d->w, count);
        return;
    }
    float *y = (float *)call->tensors[Y].data + to->start;
    block_dequantize(call, (const uint8_t *)call->tensors[X].data + from->start, from, y, to, d->w, count, d->step);
    for (int64_t i = 0; i < d->w && missing; i++) memset(y + i * lanes + count, 0, (size_t)missing * sizeof *y);
}

/* Whole blocks of a line where channels are neighbours on both sides: all of them at once where they follow each other,
 * else the first alone. Returns how many channels they are. */
static int64_t blocks_convert(const rt_cpu_call *call, const rt_quantized_reorder_args *d, const line *from, const line *to,
                               int64_t channels) {
    int64_t lanes = call->codes.block, count = from->block == lanes && to->block == lanes ? channels / lanes * lanes : lanes;
    if (channels < lanes || from->channel != 1 || to->channel != 1) return 0;
    const rt_blocked_kernels *kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    const int32_t zero = (int32_t)call->codes.zero;
    const void *x = call->tensors[X].data;
    void *y = call->tensors[Y].data;
    for (int64_t i = 0, in = from->start, out = to->start; i < d->w; i++, in += from->pixel, out += to->pixel) {
        if (call->codes.bytes) kernels->quantize((const float *)x + in, 1.0f / d->step, zero, count, (uint8_t *)y + out);
        else kernels->dequantize((const uint8_t *)x + in, d->step, zero, count, (float *)y + out);
    }
    return count;
}

static void quantized_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    rt_quantized_reorder_args d = rt_quantized_reorder_args_of(call);
    const rt_reorder_args sizes = {d.batch, d.channels, d.h, d.w};
    int64_t lanes = call->codes.block, image = turn / d.h, row = turn % d.h, count;
    line from = line_of(&sizes, call->codes.from, lanes, image, row), to = line_of(&sizes, call->codes.to, lanes, image, row);
    (void)worker;
    for (int64_t channel = 0; channel < d.channels; channel += count) {
        int64_t rest = d.channels - channel;
        count = blocks_convert(call, &d, &from, &to, rest);
        if (count == 0) {
            count = rest < lanes ? rest : lanes;
            block_convert(call, &d, &from, &to, count);
        }
        int64_t blocks = (count + lanes - 1) / lanes;
        from.start += blocks * from.block, to.start += blocks * to.block;
    }
}

static void quantized_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_quantized_reorder_args d = rt_quantized_reorder_args_of(call);
    rt_workers_run(workers, (uint32_t)d.batch * (uint32_t)d.h, quantized_turn, call);
}

const rt_cpu_operator rt_cpu_quantized_reorder = {RT_QUANTIZED_REORDER_ROW, .check = quantized_check, .run = quantized_run};
