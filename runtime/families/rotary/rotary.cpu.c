/* rotary: the two halves of each row turn by the angles of the row's place (rotary.buffer.cl). The _check and _run
 * functions keep the contract of rt_cpu_operator. */
#include <stddef.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_nests.h"
#include "../../native/src/system/arithmetic.h"

enum { X = RT_ROTARY_X, COSINES = RT_ROTARY_COSINES, SINES = RT_ROTARY_SINES, Y = RT_ROTARY_Y };
typedef rt_rotary_args dims;

/* Whether the rows of these strides, of two halves, lie within a tensor. */
static bool rows_fit(const rt_cpu_tensor *tensor, const dims *d, const int32_t *strides, int32_t half) {
    const int32_t extents[] = {d->d[0], d->d[1], d->d[2], 2, d->d[3]};
    const int32_t steps[] = {strides[0], strides[1], strides[2], half, 1};
    return rt_nest_fits(tensor, extents, steps, 5);
}

static const char *rotary_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = rt_rotary_args_of(call);
    uint64_t pairs = rt_nest_elements(d.d, 4);
    if (!rt_nest_is_countable(d.d, 4)) return "too many elements";
    if (!rows_fit(&call->tensors[X], &d, d.xs, d.x_half)) return "the input exceeds its pool";
    if (!rows_fit(&call->tensors[COSINES], &d, d.cs, d.c_half)) return "the cosines exceed their pool";
    if (!rows_fit(&call->tensors[SINES], &d, d.ss, d.s_half)) return "the sines exceed their pool";
    if (!rt_flat_fits(&call->tensors[Y], rt_product(pairs, 2))) return "the output exceeds its pool";
    needs->work = rt_product(pairs, 2);
    return NULL;
}

static void row_turn(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    dims d = rt_rotary_args_of(call);
    const float *low = rt_nest_element(&call->tensors[X], index, d.xs, 3) + index[3], *high = low + d.x_half;
    const float *cosines = rt_nest_element(&call->tensors[COSINES], index, d.cs, 3) + index[3];
    const float *sines = rt_nest_element(&call->tensors[SINES], index, d.ss, 3) + index[3];
    int64_t row = (index[0] * d.d[1] + index[1]) * d.d[2] + index[2];
    float *restrict y = rt_floats(&call->tensors[Y]) + row * 2 * d.d[3] + index[3];
    float *restrict y_high = y + d.d[3];
    for (int64_t e = 0; e < count; e++) {
        y[e] = low[e] * cosines[e] - high[e] * sines[e];
        y_high[e] = high[e] * cosines[d.c_half + e] + low[e] * sines[d.s_half + e];
    }
}

static void rotary_run(const rt_cpu_call *call, rt_workers *workers) {
    dims d = rt_rotary_args_of(call);
    rt_nest_run(call, workers, d.d, 4, 1, row_turn);
}

const rt_cpu_operator rt_cpu_rotary = {RT_ROTARY_ROW, .check = rotary_check, .run = rotary_run};
