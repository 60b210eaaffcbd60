/* softmax: along the middle of three axes, of any strides. The _check and _run functions keep the contract of
 * rt_cpu_operator. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/cpu/cpu_nests.h"
#include "../../native/src/cpu/cpu_tile.h"

static const char *softmax_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_softmax_args d = rt_softmax_args_of(call);
    const int32_t extents[] = {d.outer, d.length, d.inner};
    const int32_t xs[] = {d.x_outer_stride, d.x_stride, d.x_inner_stride};
    const int32_t ys[] = {d.y_outer_stride, d.y_stride, d.y_inner_stride};
    if (!rt_nest_is_countable(extents, 3)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_SOFTMAX_X], extents, xs, 3)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_SOFTMAX_Y], extents, ys, 3)) return "the output exceeds its pool";
    needs->work = rt_nest_elements(extents, 3);
    return NULL;
}

/* The softmax of neighbours, as vectors. */
static void run_softmax(const rt_tile_kernels *tiles, const float *x, int64_t length, float *y) {
    memmove(y, x, (size_t)length * sizeof *y);
    float sum = tiles->exponentials(y, (uint64_t)length, tiles->greatest(y, (uint64_t)length));
    for (int64_t l = 0; l < length; l++) y[l] /= sum;
}

/* Relative to the greatest value, so that no exponential overflows: the greatest, the sum, then the results. */
static void softmax_piece(const rt_cpu_call *call, int64_t outer, int64_t first, int64_t count) {
    rt_softmax_args d = rt_softmax_args_of(call);
    const float *x = rt_floats(&call->tensors[RT_SOFTMAX_X]) + outer * d.x_outer_stride + first * d.x_inner_stride;
    float *y = rt_floats(&call->tensors[RT_SOFTMAX_Y]) + outer * d.y_outer_stride + first * d.y_inner_stride;
    if (d.inner == 1 && d.x_stride == 1 && d.y_stride == 1 && !call->codes.log) {
        run_softmax(call->tiles, x, d.length, y);
        return;
    }
    float greatest[RT_INNER_PER_TURN], sum[RT_INNER_PER_TURN];
    for (int64_t i = 0; i < count; i++) greatest[i] = -INFINITY, sum[i] = 0.0f;
    for (int64_t l = 0; l < d.length; l++) {
        for (int64_t i = 0; i < count; i++) greatest[i] = rt_greater(greatest[i], x[l * d.x_stride + i * d.x_inner_stride]);
    }
    for (int64_t l = 0; l < d.length; l++) {
        for (int64_t i = 0; i < count; i++) sum[i] += expf(x[l * d.x_stride + i * d.x_inner_stride] - greatest[i]);
    }
    for (int64_t l = 0; l < d.length; l++) {
        for (int64_t i = 0; i < count; i++) {
            float v = x[l * d.x_stride + i * d.x_inner_stride] - greatest[i];
            y[l * d.y_stride + i * d.y_inner_stride] = call->codes.log ? v - logf(sum[i]) : expf(v) / sum[i];
        }
    }
}

static void softmax_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_softmax_args d = rt_softmax_args_of(call);
    rt_middle_run(call, workers, d.outer, d.inner, softmax_piece);
}

const rt_cpu_operator rt_cpu_softmax = {RT_SOFTMAX_ROW, .check = softmax_check, .run = softmax_run};
