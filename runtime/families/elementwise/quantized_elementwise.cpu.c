/* quantized_binary, quantized_lookup: element-wise operators on blocked tensors of eight bits. The _check and _run functions
 * keep the contract of rt_cpu_operator.
 *
 * quantized_binary: the sum or the product (BINARY) of `planes` planes of `pixels` blocks; b has as many, or one for each
 * plane. quantized_lookup: `runs` runs of so many blocks by a table of 256 bytes; the runs lie x_stride and y_stride
 * elements apart. */
#include <stddef.h>

#include "../../native/src/cpu/cpu_quantized.h"
#include "../../native/src/system/arithmetic.h"

enum { A = RT_QUANTIZED_BINARY_A, B = RT_QUANTIZED_BINARY_B, SUM = RT_QUANTIZED_BINARY_Y };
enum { X = RT_QUANTIZED_LOOKUP_X, TABLE = RT_QUANTIZED_LOOKUP_TABLE, Y = RT_QUANTIZED_LOOKUP_Y, BYTES = 256 };

/* A call with its division into turns: ranges of the blocks of a plane, or of a run. */
typedef struct {
    const rt_cpu_call *call;
    rt_plane_turns turns;
} division;

static uint64_t elements(const rt_cpu_call *call, int32_t planes, int32_t pixels) {
    return rt_product(rt_product((uint64_t)planes, (uint64_t)pixels), call->codes.block);
}

static void turns_run(const rt_cpu_call *call, rt_workers *workers, int32_t planes, int32_t pixels,
                      void (*turn)(const void *context, uint32_t turn, uint32_t worker)) {
    const division all = {call, rt_plane_turns_divide(workers, planes, pixels, 1)};
    rt_workers_run(workers, rt_plane_turns_count(&all.turns), turn, &all);
}

/* --- quantized_binary --- */

static const char *binary_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_quantized_binary_args d = rt_quantized_binary_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (call->codes.binary != RT_BINARY_ADD && call->codes.binary != RT_BINARY_MUL) return "no such function in bytes";
    if (d.b_pixels != d.pixels && d.b_pixels != 1) return "b has neither all pixels nor one";
    if (!rt_are_byte_bounds(d.low, d.high)) return "its bounds are no bytes";
    if (!(d.a_zero >= 0.0f && d.a_zero <= 255.0f && d.b_zero >= 0.0f && d.b_zero <= 255.0f)) return "a zero is no byte";
    needs->work = elements(call, d.planes, d.pixels);
    if (needs->work / call->codes.block > UINT32_MAX) return "too many pixels";
    if (!rt_flat_fits(&call->tensors[A], needs->work)) return "a exceeds its pool";
    if (!rt_flat_fits(&call->tensors[B], elements(call, d.planes, d.b_pixels))) return "b exceeds its pool";
    if (!rt_flat_fits(&call->tensors[SUM], needs->work)) return "the output exceeds its pool";
    return NULL;
}

static void binary_turn(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    const rt_cpu_call *call = all->call;
    rt_quantized_binary_args d = rt_quantized_binary_args_of(call);
    rt_plane_turn own = rt_plane_turn_at(&all->turns, turn);
    int64_t block = call->codes.block, first = (own.plane * d.pixels + own.first_row) * block;
    bool repeats = d.b_pixels < d.pixels;
    (void)worker;
    const rt_quantized_pair pair = {
        .a = (const uint8_t *)call->tensors[A].data + first,
        .b = (const uint8_t *)call->tensors[B].data + (repeats ? own.plane * block : first),
        .y = (uint8_t *)call->tensors[SUM].data + first,
        .blocks = own.end_row - own.first_row,
        .b_step = repeats ? 0 : block,
        .multiplies = call->codes.binary == RT_BINARY_MUL,
        .fixed = d.fixed != 0,
        .multipliers = {d.a_multiplier, d.b_multiplier, d.y_multiplier},
        .shifts = {d.a_shift, d.b_shift, d.y_shift},
        .a_zero = d.a_zero,
        .a_scale = d.a_scale,
        .b_zero = d.b_zero,
        .b_scale = d.b_scale,
        .low = d.low,
        .high = d.high,
    };
    rt_blocked_kernels_of(call->tiles, call->codes.block)->quantized_pair(&pair);
}

static void binary_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_quantized_binary_args d = rt_quantized_binary_args_of(call);
    turns_run(call, workers, d.planes, d.pixels, binary_turn);
}

/* --- quantized_lookup --- */

static const char *lookup_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_quantized_lookup_args d = rt_quantized_lookup_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    needs->work = elements(call, d.runs, d.pixels);
    if (needs->work / call->codes.block > UINT32_MAX) return "too many pixels";
    uint64_t run = elements(call, 1, d.pixels), more = (uint64_t)d.runs - 1;
    if (!rt_flat_fits(&call->tensors[X], rt_sum(rt_product(more, (uint64_t)d.x_stride), run)))
        return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[TABLE], BYTES)) return "the table exceeds its pool";
    if (!rt_flat_fits(&call->tensors[Y], rt_sum(rt_product(more, (uint64_t)d.y_stride), run)))
        return "the output exceeds its pool";
    return NULL;
}

static void lookup_turn(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    const rt_cpu_call *call = all->call;
    rt_quantized_lookup_args d = rt_quantized_lookup_args_of(call);
    rt_plane_turn own = rt_plane_turn_at(&all->turns, turn);
    int64_t block = call->codes.block, count = (own.end_row - own.first_row) * block;
    const uint8_t *table = call->tensors[TABLE].data;
    const uint8_t *x = (const uint8_t *)call->tensors[X].data + own.plane * d.x_stride + own.first_row * block;
    uint8_t *y = (uint8_t *)call->tensors[Y].data + own.plane * d.y_stride + own.first_row * block;
    (void)worker;
    rt_blocked_kernels_of(call->tiles, call->codes.block)->lookup(x, table, count, y);
}

static void lookup_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_quantized_lookup_args d = rt_quantized_lookup_args_of(call);
    turns_run(call, workers, d.runs, d.pixels, lookup_turn);
}

const rt_cpu_operator rt_cpu_quantized_binary = {RT_QUANTIZED_BINARY_ROW, .check = binary_check, .run = binary_run};
const rt_cpu_operator rt_cpu_quantized_lookup = {RT_QUANTIZED_LOOKUP_ROW, .check = lookup_check, .run = lookup_run};
