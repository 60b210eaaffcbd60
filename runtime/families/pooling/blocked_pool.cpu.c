/* blocked_pool, quantized_pool and blocked_global_pool: a turn is a range of rows of one output plane, or one block of
 * averages. quantized_pool reads and writes bytes (rt_quantized_pool); ZERO is the input's zero point. */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_quantized.h"

enum { X = RT_BLOCKED_POOL_X, Y = RT_BLOCKED_POOL_Y };
_Static_assert((int)RT_BLOCKED_GLOBAL_POOL_Y == (int)Y && (int)RT_QUANTIZED_POOL_Y == (int)Y, "all have these tensors");

/* What all turns of a pool share. */
typedef struct {
    const rt_cpu_call *call;
    rt_blocked_pool_args d;
    rt_blocked_window window;
    rt_plane_turns turns;
} job;

/* Blocks of channels of all images: the turns. */
static uint64_t planes(const rt_cpu_call *call, int32_t batch, int32_t channels) {
    return rt_product((uint64_t)batch, rt_ceil_div((uint64_t)channels, call->codes.block));
}

static const char *pool_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_blocked_pool_args d = rt_blocked_pool_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    uint32_t block = call->codes.block;
    uint64_t images = (uint64_t)d.batch, channels = (uint64_t)d.channels;
    uint64_t x = rt_blocked_elements(images, channels, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, channels, rt_product((uint64_t)d.out_h, (uint64_t)d.out_w), block);
    if (y / block > UINT32_MAX) return "too many pixels";
    if (!rt_flat_fits(&call->tensors[X], x)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[Y], y)) return "the output exceeds its pool";
    needs->work = rt_product(y, rt_product((uint64_t)d.k_h, (uint64_t)d.k_w));
    return NULL;
}

static void pool_turn(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const rt_cpu_call *call = all->call;
    const rt_blocked_pool_args d = all->d;
    rt_plane_turn own = rt_plane_turn_at(&all->turns, turn);
    int64_t lanes = call->codes.block;
    (void)worker;
    const rt_blocked_rows rows = {
        .window = &all->window,
        .x = rt_floats(&call->tensors[X]) + own.plane * d.in_h * d.in_w * lanes,
        .y = rt_floats(&call->tensors[Y]) + own.plane * d.out_h * d.out_w * lanes,
        .first_row = own.first_row,
        .end_row = own.end_row,
        .pooling = call->codes.pool,
        .count_include_pad = d.count_include_pad != 0,
    };
    rt_blocked_kernels_of(call->tiles, call->codes.block)->pool(&rows);
}

/* Its ints are those of blocked_pool. */
static const char *quantized_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_blocked_pool_args d = rt_blocked_pool_args_of(call);
    rt_quantized_pool_args own = rt_quantized_pool_args_of(call);
    if (rt_product((uint64_t)d.k_h, (uint64_t)d.k_w) > INT32_MAX / 255) return "too many values of an output";
    return rt_are_byte_bounds(own.low, own.high) ? pool_check(call, needs) : "its bounds are no bytes";
}

static void quantized_turn(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const rt_cpu_call *call = all->call;
    rt_quantized_pool_args d = rt_quantized_pool_args_of(call);
    rt_plane_turn own = rt_plane_turn_at(&all->turns, turn);
    int64_t lanes = call->codes.block;
    (void)worker;
    const rt_quantized_pool pool = {
        .window = &all->window,
        .x = (const uint8_t *)call->tensors[X].data + own.plane * d.in_h * d.in_w * lanes,
        .y = (uint8_t *)call->tensors[Y].data + own.plane * d.out_h * d.out_w * lanes,
        .first_row = own.first_row,
        .end_row = own.end_row,
        .pooling = call->codes.pool,
        .count_include_pad = d.count_include_pad != 0,
        .zero = (int32_t)call->codes.zero,
        .fixed = d.fixed,
        .multiplier = d.multiplier,
        .shift = d.shift,
        .scale = d.scale,
        .low = d.low,
        .high = d.high,
    };
    rt_blocked_kernels_of(call->tiles, call->codes.block)->quantized_pool(&pool);
}

static void turns_run(const rt_cpu_call *call, rt_workers *workers,
                      void (*turn)(const void *context, uint32_t turn, uint32_t worker)) {
    rt_blocked_pool_args d = rt_blocked_pool_args_of(call);
    job all = {.call = call, .d = d};
    all.window = (rt_blocked_window){d.in_h,     d.in_w,     d.out_h, d.out_w, d.k_h,   d.k_w,
                                     d.stride_h, d.stride_w, d.pad_t, d.pad_l, d.dil_h, d.dil_w};
    all.turns = rt_plane_turns_divide(workers, (int64_t)planes(call, d.batch, d.channels), d.out_h, d.out_w);
    rt_workers_run(workers, rt_plane_turns_count(&all.turns), turn, &all);
}

static void pool_run(const rt_cpu_call *call, rt_workers *workers) { turns_run(call, workers, pool_turn); }

static void quantized_run(const rt_cpu_call *call, rt_workers *workers) { turns_run(call, workers, quantized_turn); }

/* The output is row-major: [batch][channels], without the lanes behind the last channel. */
static const char *global_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_blocked_global_pool_args d = rt_blocked_global_pool_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    uint64_t pixels = rt_product((uint64_t)d.in_h, (uint64_t)d.in_w);
    uint64_t x = rt_blocked_elements((uint64_t)d.batch, (uint64_t)d.channels, pixels, call->codes.block);
    if (planes(call, d.batch, d.channels) > UINT32_MAX) return "too many channels";
    if (!rt_flat_fits(&call->tensors[X], x)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[Y], rt_product((uint64_t)d.batch, (uint64_t)d.channels)))
        return "the output exceeds its pool";
    needs->work = x;
    return NULL;
}

static void global_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    rt_blocked_global_pool_args d = rt_blocked_global_pool_args_of(call);
    float sums[16];
    int64_t lanes = call->codes.block, blocks = (int64_t)rt_ceil_div((uint64_t)d.channels, (uint64_t)lanes);
    int64_t pixels = (int64_t)d.in_h * d.in_w, channel = turn % blocks * lanes;
    float *y = rt_floats(&call->tensors[Y]) + turn / blocks * d.channels + channel;
    (void)worker;
    rt_blocked_kernels_of(call->tiles, call->codes.block)->sum(rt_floats(&call->tensors[X]) + turn * pixels * lanes,
                                                               (uint64_t)pixels, sums);
    for (int64_t i = 0; i < lanes && channel + i < d.channels; i++) y[i] = sums[i] / (float)pixels;
}

static void global_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_blocked_global_pool_args d = rt_blocked_global_pool_args_of(call);
    rt_workers_run(workers, (uint32_t)planes(call, d.batch, d.channels), global_turn, call);
}

const rt_cpu_operator rt_cpu_blocked_pool = {RT_BLOCKED_POOL_ROW, .check = pool_check, .run = pool_run};
const rt_cpu_operator rt_cpu_quantized_pool = {RT_QUANTIZED_POOL_ROW, .check = quantized_check, .run = quantized_run};
const rt_cpu_operator rt_cpu_blocked_global_pool = {RT_BLOCKED_GLOBAL_POOL_ROW, .check = global_check, .run = global_run};
