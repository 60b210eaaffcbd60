/* blocked_depthwise: a convolution of each channel with its own weights, [ceil(channels/B)][k_h][k_w][B]. Or of groups of
 * `group` channels that become as many: [ceil(channels/B)][group, the input's place in it][k_h][k_w][B]. A turn is a range
 * of rows of one output plane. */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_blocked.h"

enum {
    X = RT_BLOCKED_DEPTHWISE_X,
    W = RT_BLOCKED_DEPTHWISE_W,
    B = RT_BLOCKED_DEPTHWISE_B,
    RESIDUAL = RT_BLOCKED_DEPTHWISE_RESIDUAL,
    Y = RT_BLOCKED_DEPTHWISE_Y
};

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    const rt_blocked_kernels *kernels;
    rt_blocked_window window;
    rt_plane_turns turns;
    int64_t blocks, products; /* of an output */
    int64_t group;
    float a, b; /* of the activation */
} job;

static rt_blocked_window window_of(const rt_blocked_depthwise_args *d) {
    return (rt_blocked_window){d->in_h,     d->in_w,  d->out_h, d->out_w, d->k_h,   d->k_w,
                               d->stride_h, d->stride_w, d->pad_t, d->pad_l, d->dil_h, d->dil_w};
}

static const char *depthwise_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_blocked_depthwise_args d = rt_blocked_depthwise_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    uint32_t block = call->codes.block;
    uint64_t images = (uint64_t)d.batch, channels = (uint64_t)d.channels;
    uint64_t taps = rt_product3(d.k_h, d.k_w, d.group);
    bool fills = d.group >= 4 && d.group <= (int32_t)block && (d.group & (d.group - 1)) == 0;
    if (d.group != 1 && !fills) return "its group is out of range";
    uint64_t x = rt_blocked_elements(images, channels, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, channels, rt_product((uint64_t)d.out_h, (uint64_t)d.out_w), block);
    if (y / block > UINT32_MAX || taps > UINT32_MAX) return "too many pixels";
    if (!rt_flat_fits(&tensors[X], x)) return "the input exceeds its pool";
    if (!rt_flat_fits(&tensors[W], rt_blocked_elements(1, channels, taps, block))) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[B], rt_blocked_elements(1, channels, 1, block))) return "the bias exceeds its pool";
    if (call->codes.residual && !rt_flat_fits(&tensors[RESIDUAL], y)) return "the residual exceeds its pool";
    if (!rt_flat_fits(&tensors[Y], y)) return "the output exceeds its pool";
    rt_blocked_window window = window_of(&d);
    needs->scratch_bytes = rt_padded_rows_bytes(&window, block);
    if (needs->scratch_bytes > INT32_MAX) return "its window is out of range";
    needs->work = rt_product(y, taps);
    return NULL;
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const rt_cpu_call *call = all->call;
    const rt_blocked_window *window = &all->window;
    rt_plane_turn own = rt_plane_turn_at(&all->turns, turn);
    int64_t plane = own.plane, lanes = call->codes.block, channel = plane % all->blocks * lanes;
    rt_blocked_rows rows = {
        .window = window,
        .x = rt_floats(&call->tensors[X]) + plane * window->in_h * window->in_w * lanes,
        .padded = rt_workers_scratch(all->workers, worker),
        .weights = rt_floats(&call->tensors[W]) + channel * all->products,
        .group = all->group,
        .bias = rt_floats(&call->tensors[B]) + channel,
        .y = rt_floats(&call->tensors[Y]) + plane * window->out_h * window->out_w * lanes,
        .first_row = own.first_row,
        .end_row = own.end_row,
        .activation = call->codes.activation,
        .a = all->a,
        .b = all->b,
        .tiles = call->tiles,
    };
    if (call->codes.residual) {
        rows.residual = rt_floats(&call->tensors[RESIDUAL]) + plane * window->out_h * window->out_w * lanes;
    }
    all->kernels->depthwise(&rows);
}

static void depthwise_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_blocked_depthwise_args d = rt_blocked_depthwise_args_of(call);
    job all = {
        .call = call,
        .workers = workers,
        .kernels = rt_blocked_kernels_of(call->tiles, call->codes.block),
        .window = window_of(&d),
        .a = d.act_a,
        .b = d.act_b,
        .blocks = (int64_t)rt_ceil_div((uint64_t)d.channels, call->codes.block),
        .products = (int64_t)d.k_h * d.k_w * d.group,
        .group = d.group,
    };
    all.turns = rt_plane_turns_divide(workers, d.batch * all.blocks, d.out_h, d.out_w);
    rt_workers_run(workers, rt_plane_turns_count(&all.turns), turn_run, &all);
}

const rt_cpu_operator rt_cpu_blocked_depthwise = {
    RT_BLOCKED_DEPTHWISE_ROW, .check = depthwise_check, .run = depthwise_run};
