/* reorder: a tensor from one order of its elements to another (RT_ORDER_*). A turn is one line of one image; lanes
 * behind the last channel become zero.
 *
 * quantized_reorder: the same from floats to bytes where BYTES is 1, else from bytes to floats; a byte u stands for
 * step * (u - ZERO). Bytes behind the last channel may have any value. FOUND is added where step and zero point are those
 * of the tensor's range, as ONNX's DynamicQuantizeLinear finds them: they follow its bytes. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "cpu_arguments.h"
#include "cpu_quantized.h"

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

enum { LEAST, MOST, RANGE };

static const char *quantized_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_quantized_reorder_args d = rt_quantized_reorder_args_of(call);
    const rt_reorder_args sizes = {d.batch, d.channels, d.h, d.w};
    const bool is_rounded = call->codes.bytes & RT_BYTES_OUTPUT;
    const uint64_t found = call->codes.bytes & RT_BYTES_FOUND ? sizeof(rt_found_steps) : 0;
    const rt_cpu_tensor *floats = &call->tensors[is_rounded ? X : Y];
    uint64_t x_bytes = is_rounded ? sizeof(float) : 1, y_bytes = is_rounded ? 1 : sizeof(float);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (!(d.step > 0.0f && d.step < INFINITY)) return "its step is no positive number";
    uint64_t x = elements(&sizes, call->codes.from, call->codes.block);
    uint64_t y = elements(&sizes, call->codes.to, call->codes.block);
    if (rt_product((uint64_t)d.batch, (uint64_t)d.h) > UINT32_MAX) return "too many lines";
    x = rt_sum(rt_product(x, x_bytes), is_rounded ? 0 : found);
    y = rt_sum(rt_product(y, y_bytes), is_rounded ? found : 0);
    if (floats->offset % sizeof(float) != 0 || !rt_flat_fits(&call->tensors[X], x)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[Y], y)) return "the output exceeds its pool";
    needs->scratch_bytes = RANGE * sizeof(float);
    needs->work = y;
    return NULL;
}

enum { TOGETHER = 64, QUAD = 4, TURN = 4096 }; /* TURN: elements, for which it pays to be divided */

/* What all turns share: how floats become bytes, or bytes floats. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    const rt_blocked_kernels *kernels;
    rt_quantized_reorder_args d;
    rt_found_steps steps;
    bool divides;
    int64_t lines; /* of a turn */
    rt_plane_turns turns;       /* in which the range is found: of planes of blocks, or of all floats as one */
    int64_t blocks, plane, row; /* blocks of channels; floats of a plane and of a row of theirs */
} rounding;

/* `count` floats, whole registers of them. */
static void floats_quantize(const rounding *to_bytes, const float *x, int64_t count, uint8_t *y) {
    const rt_found_steps by = to_bytes->steps;
    if (to_bytes->divides) to_bytes->kernels->quantize_by(x, by.step, by.zero, count, y);
    else to_bytes->kernels->quantize(x, 1.0f / by.step, by.zero, count, y);
}

/* Elements that lie `step` and `apart` from each other, some together. */
static void elements_quantize(const rounding *to_bytes, const float *x, int64_t step, uint8_t *y, int64_t apart,
                              int64_t count) {
    float from[TOGETHER] = {0};
    uint8_t to[TOGETHER];
    for (int64_t done = 0; done < count; done += TOGETHER) {
        int64_t some = count - done < TOGETHER ? count - done : TOGETHER;
        const bool is_there = step == 1 && some == TOGETHER;
        for (int64_t i = 0; i < some && !is_there; i++) from[i] = x[(done + i) * step];
        floats_quantize(to_bytes, is_there ? x + done : from, TOGETHER, to);
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
        const rt_found_steps by = to_bytes->steps;
        to_bytes->kernels->quads(x + done * from->pixel, plane, count, 1.0f / by.step, by.zero, some, quads);
        for (int64_t i = 0; i < some; i++) memcpy(y + (done + i) * to->pixel, quads + i, sizeof *quads);
    }
}

/* Channels of a line; few into a block are there at once, others one by one. */
static void block_quantize(const rounding *to_bytes, const float *x, const line *from, uint8_t *y, const line *to,
                           int64_t width, int64_t count) {
    const bool are_neighbours = from->pixel == 1 || (from->channel == 1 && from->pixel == count);
    if (!to_bytes->divides && count <= QUAD && to->channel == 1 && to->pixel > QUAD && are_neighbours) {
        quads_quantize(to_bytes, x, from, y, to, width, count);
        return;
    }
    for (int64_t c = 0; c < count; c++) {
        elements_quantize(to_bytes, x + c * from->channel, from->pixel, y + c * to->channel, to->pixel, width);
    }
}

/* Blocks of pixels at once where these are neighbours on both sides, and what is left one by one. */
static void block_dequantize(const rounding *to_floats, const uint8_t *x, const line *from, float *y, const line *to,
                             int64_t width, int64_t count) {
    const int64_t block = to_floats->call->codes.block, whole = from->pixel == 1 && to->pixel == 1 ? width / block * block : 0;
    const int32_t zero = to_floats->steps.zero;
    const float step = to_floats->steps.step;
    for (int64_t c = 0; c < count && whole; c++) {
        to_floats->kernels->dequantize(x + c * from->channel, step, zero, whole, y + c * to->channel);
    }
    for (int64_t i = whole; i < width; i++) {
        const uint8_t *source = x + i * from->pixel;
        for (int64_t c = 0; c < count; c++) y[i * to->pixel + c * to->channel] = (float)(source[c * from->channel] - zero) * step;
    }
}

/* Up to a block of channels of a line. */
static void block_convert(const rounding *all, const line *from, const line *to, int64_t count) {
    const rt_cpu_call *call = all->call;
    int64_t lanes = call->codes.block, missing = call->codes.to == RT_ORDER_BLOCKED ? lanes - count : 0;
    if (call->codes.bytes & RT_BYTES_OUTPUT) {
        uint8_t *y = (uint8_t *)call->tensors[Y].data + to->start;
        block_quantize(all, (const float *)call->tensors[X].data + from->start, from, y, to, all->d.w, count);
        return;
    }
    float *y = (float *)call->tensors[Y].data + to->start;
    block_dequantize(all, (const uint8_t *)call->tensors[X].data + from->start, from, y, to, all->d.w, count);
    for (int64_t i = 0; i < all->d.w && missing; i++) memset(y + i * lanes + count, 0, (size_t)missing * sizeof *y);
}

/* Whole blocks of a line where channels are neighbours on both sides: all of them at once where they follow each other,
 * else the first alone. Returns how many channels they are. */
static int64_t blocks_convert(const rounding *all, const line *from, const line *to, int64_t channels) {
    const rt_cpu_call *call = all->call;
    int64_t lanes = call->codes.block, count = from->block == lanes && to->block == lanes ? channels / lanes * lanes : lanes;
    if (channels < lanes || from->channel != 1 || to->channel != 1) return 0;
    const rt_found_steps by = all->steps;
    const void *x = call->tensors[X].data;
    void *y = call->tensors[Y].data;
    for (int64_t i = 0, in = from->start, out = to->start; i < all->d.w; i++, in += from->pixel, out += to->pixel) {
        if (call->codes.bytes & RT_BYTES_OUTPUT) floats_quantize(all, (const float *)x + in, count, (uint8_t *)y + out);
        else all->kernels->dequantize((const uint8_t *)x + in, by.step, by.zero, count, (float *)y + out);
    }
    return count;
}

static void line_convert(const rounding *all, int64_t image, int64_t row) {
    const rt_cpu_call *call = all->call;
    const rt_quantized_reorder_args d = all->d;
    const rt_reorder_args sizes = {d.batch, d.channels, d.h, d.w};
    int64_t lanes = call->codes.block, count;
    line from = line_of(&sizes, call->codes.from, lanes, image, row), to = line_of(&sizes, call->codes.to, lanes, image, row);
    for (int64_t channel = 0; channel < d.channels; channel += count) {
        int64_t rest = d.channels - channel;
        count = blocks_convert(all, &from, &to, rest);
        if (count == 0) {
            count = rest < lanes ? rest : lanes;
            block_convert(all, &from, &to, count);
        }
        int64_t blocks = (count + lanes - 1) / lanes;
        from.start += blocks * from.block, to.start += blocks * to.block;
    }
}

static void quantized_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rounding *all = context;
    const int64_t first = turn * all->lines, last = (int64_t)all->d.batch * all->d.h, end = first + all->lines;
    (void)worker;
    for (int64_t i = first; i < end && i < last; i++) line_convert(all, i / all->d.h, i % all->d.h);
}

/* Divides all floats: planes of blocks as those who write and read them do, others as one plane of registers. */
static void spans_divide(rounding *all) {
    const rt_quantized_reorder_args *d = &all->d;
    const rt_reorder_args sizes = {d->batch, d->channels, d->h, d->w};
    const int64_t lanes = all->call->codes.block;
    const bool are_blocks = all->call->codes.from == RT_ORDER_BLOCKED;
    all->blocks = (d->channels + lanes - 1) / lanes;
    const int64_t count = (int64_t)elements(&sizes, all->call->codes.from, all->call->codes.block);
    const int64_t planes = are_blocks ? d->batch * all->blocks : 1, rows = are_blocks ? d->h : count / lanes;
    all->plane = count / planes;
    all->row = are_blocks ? d->w * lanes : lanes;
    all->turns = rt_plane_turns_divide(all->workers, planes, rows > 0 ? rows : 1, all->row / lanes);
}

/* Neighbouring floats; `channels`: lanes of a block that count. A value. */
typedef struct {
    int64_t start, count, channels;
} span;

static span span_of(const rounding *all, uint32_t turn) {
    const rt_plane_turn own = rt_plane_turn_at(&all->turns, turn);
    const int64_t first = own.first_row * all->row, lanes = all->call->codes.block;
    const int64_t end = own.end_row == all->turns.rows ? all->plane : own.end_row * all->row;
    const int64_t rest = all->d.channels - own.plane % all->blocks * lanes;
    const bool are_blocks = all->call->codes.from == RT_ORDER_BLOCKED;
    return (span){own.plane * all->plane + first, end - first, are_blocks && rest < lanes ? rest : lanes};
}

/* Extends a worker's range by its share of the floats. */
static void range_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rounding *all = context;
    const span own = span_of(all, turn);
    const float *x = (const float *)all->call->tensors[X].data + own.start;
    float *range = rt_workers_scratch(all->workers, worker);
    const int64_t blocks = own.count / all->call->codes.block;
    all->kernels->extend(x, blocks, (uint32_t)own.channels, range);
    for (int64_t i = blocks * all->call->codes.block; i < own.count; i++) {
        range[LEAST] = fminf(range[LEAST], x[i]), range[MOST] = fmaxf(range[MOST], x[i]);
    }
}

/* Rounds a share of blocks, which stay where they are. */
static void span_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rounding *all = context;
    const span own = span_of(all, turn);
    const float *x = (const float *)all->call->tensors[X].data + own.start;
    (void)worker;
    floats_quantize(all, x, own.count, (uint8_t *)all->call->tensors[Y].data + own.start);
}

/* The steps of the range of all floats, and zero. */
static rt_found_steps steps_find(rounding *all) {
    const uint32_t workers = rt_workers_count(all->workers);
    float range[RANGE] = {0};
    for (uint32_t i = 0; i < workers; i++) memcpy(rt_workers_scratch(all->workers, i), range, sizeof range);
    rt_workers_run(all->workers, rt_plane_turns_count(&all->turns), range_turn, all);
    for (uint32_t i = 0; i < workers; i++) {
        const float *own = rt_workers_scratch(all->workers, i);
        range[LEAST] = fminf(range[LEAST], own[LEAST]), range[MOST] = fmaxf(range[MOST], own[MOST]);
    }
    const float steps = (range[MOST] - range[LEAST]) / 255.0f, step = steps > 0.0f ? steps : 1.0f;
    return (rt_found_steps){step, (int32_t)nearbyintf(fminf(255.0f, -range[LEAST] / step))};
}

static void quantized_run(const rt_cpu_call *call, rt_workers *workers) {
    rounding all = {.call = call, .workers = workers, .d = rt_quantized_reorder_args_of(call)};
    const rt_reorder_args sizes = {all.d.batch, all.d.channels, all.d.h, all.d.w};
    const bool is_rounded = call->codes.bytes & RT_BYTES_OUTPUT;
    all.kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    all.steps = (rt_found_steps){all.d.step, (int32_t)call->codes.zero};
    all.divides = call->codes.bytes & RT_BYTES_FOUND;
    spans_divide(&all);
    if (all.divides && is_rounded) {
        all.steps = steps_find(&all);
        memcpy((uint8_t *)call->tensors[Y].data + elements(&sizes, call->codes.to, call->codes.block), &all.steps, sizeof all.steps);
    } else if (all.divides) {
        all.steps = rt_found_steps_of(call->tensors[X].data, elements(&sizes, call->codes.from, call->codes.block));
    }
    if (is_rounded && call->codes.from == RT_ORDER_BLOCKED && call->codes.to == RT_ORDER_BLOCKED) {
        rt_workers_run(workers, rt_plane_turns_count(&all.turns), span_turn, &all);
        return;
    }
    const uint64_t line = (uint64_t)all.d.channels * (uint64_t)all.d.w, lines = (uint64_t)all.d.batch * (uint64_t)all.d.h;
    all.lines = line < TURN ? (int64_t)rt_ceil_div(TURN, line) : 1;
    rt_workers_run(workers, (uint32_t)rt_ceil_div(lines, (uint64_t)all.lines), quantized_turn, &all);
}

const rt_cpu_operator rt_cpu_quantized_reorder = {RT_QUANTIZED_REORDER_ROW, .check = quantized_check, .run = quantized_run};
