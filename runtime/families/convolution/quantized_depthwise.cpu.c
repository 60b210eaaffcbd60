/* quantized_depthwise: blocked_depthwise of eight bits. A turn is a range of rows of one output plane. */
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "quantized_convolution.h"

enum { X = RT_QUANTIZED_DEPTHWISE_X, W = RT_QUANTIZED_DEPTHWISE_W };

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    const rt_quantized_kernels *bytes;
    rt_workers *workers;
    rt_blocked_window window;
    rt_plane_turns turns;
    rt_quantized_end end; /* at the tensors' begin */
    uint64_t padded_bytes; /* a worker's scratch: padded rows, sums of an output row, weights as floats */
    int64_t blocks;
    uint8_t zero;          /* of the input */
} job;

static rt_blocked_window window_of(const rt_cpu_call *call) {
    rt_quantized_depthwise_args d = rt_quantized_depthwise_args_of(call);
    return (rt_blocked_window){d.in_h,     d.in_w,     d.out_h, d.out_w, d.k_h,   d.k_w,
                               d.stride_h, d.stride_w, d.pad_t, d.pad_l, d.dil_h, d.dil_w};
}

static const char *depthwise_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_quantized_depthwise_args d = rt_quantized_depthwise_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    uint32_t block = call->codes.block;
    uint64_t images = (uint64_t)d.batch, channels = (uint64_t)d.channels;
    uint64_t taps = rt_product((uint64_t)d.k_h, (uint64_t)d.k_w);
    if (taps > (call->codes.bytes & RT_BYTES_OFFSETS ? RT_QUANTIZED_TAPS / 2 : RT_QUANTIZED_TAPS))
        return "too many products of an output";
    uint64_t x = rt_blocked_elements(images, channels, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, channels, rt_product((uint64_t)d.out_h, (uint64_t)d.out_w), block);
    uint64_t lanes = rt_blocked_elements(1, channels, 1, block);
    rt_blocked_window window = window_of(call);
    uint64_t others = rt_product(rt_sum((uint64_t)d.out_w, taps), block * sizeof(float));
    needs->scratch_bytes = rt_sum(rt_padded_rows_bytes(&window, block), others);
    if (needs->scratch_bytes > INT32_MAX) return "its window is out of range";
    needs->work = rt_product(y, taps);
    return rt_quantized_tensors_check(call, x, y, rt_product(lanes, taps), lanes, d.act_a, d.act_b);
}

static void depthwise_turn(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const rt_cpu_call *call = all->call;
    const rt_blocked_window *window = &all->window;
    rt_plane_turn own = rt_plane_turn_at(&all->turns, turn);
    int64_t lanes = call->codes.block, channel = own.plane % all->blocks * lanes;
    int64_t count = window->k_h * window->k_w * lanes;
    const int8_t *w = (const int8_t *)call->tensors[W].data + own.plane % all->blocks * count;
    void *padded = rt_workers_scratch(all->workers, worker);
    float *sums = (float *)(void *)((char *)padded + all->padded_bytes), *weights = sums + window->out_w * lanes;
    const rt_quantized_rows rows = {
        .window = window,
        .x = (const uint8_t *)call->tensors[X].data + own.plane * window->in_h * window->in_w * lanes,
        .zero = all->zero,
        .bytes = w,
        .weights = weights,
        .padded = padded,
        .sums = sums,
        .first_row = own.first_row,
        .end_row = own.end_row,
        .end = rt_quantized_end_move(all->end, channel, own.plane * window->out_h * window->out_w * lanes),
    };
    const bool has_offsets = call->codes.bytes & RT_BYTES_OFFSETS;
    if (!has_offsets && all->bytes->depthwise != NULL && all->bytes->depthwise(&rows)) return;
    for (int64_t i = 0; i < count; i++) weights[i] = w[i];
    for (int64_t i = 0; i < count && has_offsets; i++) {
        int32_t offset;
        memcpy(&offset, rows.end.bias + 2 * rows.end.shifts + i % lanes, sizeof offset);
        weights[i] += (float)offset;
    }
    all->kernels->quantized_depthwise(&rows);
}

static void depthwise_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_quantized_depthwise_args d = rt_quantized_depthwise_args_of(call);
    job all = {
        .call = call,
        .kernels = rt_blocked_kernels_of(call->tiles, call->codes.block),
        .bytes = rt_quantized_kernels_of(call->tiles, call->codes.block, call->codes.bytes),
        .workers = workers,
        .window = window_of(call),
        .blocks = (int64_t)rt_ceil_div((uint64_t)d.channels, call->codes.block),
    };
    all.padded_bytes = rt_padded_rows_bytes(&all.window, call->codes.block);
    const int64_t channels = all.blocks * call->codes.block;
    const uint64_t elements = (uint64_t)(channels * d.in_h * d.in_w * d.batch);
    all.end = rt_quantized_end_of(call, channels, elements, d.act_a, d.act_b, d.residual_scale);
    all.zero = (uint8_t)all.end.zero;
    all.turns = rt_plane_turns_divide(workers, d.batch * all.blocks, d.out_h, d.out_w);
    rt_workers_run(workers, rt_plane_turns_count(&all.turns), depthwise_turn, &all);
}

const rt_cpu_operator rt_cpu_quantized_depthwise = {
    RT_QUANTIZED_DEPTHWISE_ROW, .check = depthwise_check, .run = depthwise_run};
