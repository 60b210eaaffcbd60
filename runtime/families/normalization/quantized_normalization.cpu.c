/* quantized_normalization: rows of bytes normalised to bytes: y = (x - mean) / sqrt(variance + epsilon) * s[c] + t[c], in
 * steps of x on the right and of y on the left, rounded and within act_a and act_b; the mean is `zero` where it is not
 * centered. A turn is some rows. The _check and _run functions keep the contract of rt_cpu_operator. */
#include <stddef.h>

#include "../../native/src/cpu/cpu_quantized.h"
#include "../../native/src/system/arithmetic.h"

enum {
    X = RT_QUANTIZED_NORMALIZATION_X,
    S = RT_QUANTIZED_NORMALIZATION_S,
    T = RT_QUANTIZED_NORMALIZATION_T,
    Y = RT_QUANTIZED_NORMALIZATION_Y
};
enum { ROWS_OF_TURN = 8, MOST_CHANNELS = INT32_MAX / (255 * 255) };

static const char *normalization_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_quantized_normalization_args d = rt_quantized_normalization_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if ((uint32_t)d.channels % call->codes.block != 0) return "its rows are no whole blocks";
    if (d.channels > MOST_CHANNELS) return "too many channels";
    if (!(d.epsilon >= 0.0f)) return "its epsilon is below 0";
    if (!rt_are_byte_bounds(d.act_a, d.act_b)) return "its bounds are no bytes";
    needs->work = rt_product((uint64_t)d.rows, (uint64_t)d.channels);
    if (!rt_flat_fits(&call->tensors[X], needs->work)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[S], (uint64_t)d.channels)) return "the scale exceeds its pool";
    if (!rt_flat_fits(&call->tensors[T], (uint64_t)d.channels)) return "the shift exceeds its pool";
    if (!rt_flat_fits(&call->tensors[Y], needs->work)) return "the output exceeds its pool";
    return NULL;
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    rt_quantized_normalization_args d = rt_quantized_normalization_args_of(call);
    const rt_blocked_kernels *loops = rt_blocked_kernels_of(call->tiles, call->codes.block);
    const int64_t first = (int64_t)turn * ROWS_OF_TURN, rest = d.rows - first;
    rt_quantized_norm row = {
        .s = rt_floats(&call->tensors[S]),
        .t = rt_floats(&call->tensors[T]),
        .count = d.channels,
        .centered = d.centered,
        .zero = d.zero,
        .epsilon = d.epsilon,
        .low = d.act_a,
        .high = d.act_b,
    };
    (void)worker;
    for (int64_t i = first; i < first + (rest < ROWS_OF_TURN ? rest : ROWS_OF_TURN); i++) {
        row.x = (const uint8_t *)call->tensors[X].data + i * d.channels;
        row.y = (uint8_t *)call->tensors[Y].data + i * d.channels;
        loops->quantized_normalize(&row);
    }
}

static void normalization_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_quantized_normalization_args d = rt_quantized_normalization_args_of(call);
    rt_workers_run(workers, (uint32_t)rt_ceil_div((uint64_t)d.rows, ROWS_OF_TURN), turn_run, call);
}

const rt_cpu_operator rt_cpu_quantized_normalization = {
    RT_QUANTIZED_NORMALIZATION_ROW, .check = normalization_check, .run = normalization_run};
