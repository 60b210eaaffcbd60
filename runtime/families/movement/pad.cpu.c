/* pad: a nest of four loops with extents d of the output and i of the input, p elements before it on each axis. The
 * _check and _run functions keep the contract of rt_cpu_operator. */
#include <stddef.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_nests.h"

static const char *pad_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_pad_args d = rt_pad_args_of(call);
    if (!rt_nest_is_countable(d.d, 4) || !rt_nest_is_countable(d.i, 4)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_PAD_X], d.i, d.xs, 4)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_PAD_Y], d.d, d.ys, 4)) return "the output exceeds its pool";
    needs->work = rt_nest_elements(d.d, 4);
    return NULL;
}

/* Input index on an axis for an output index, -1 where the constant stands. */
static int64_t pad_source(uint32_t code, const rt_pad_args *d, int64_t index, uint32_t axis) {
    int64_t size = d->i[axis];
    int64_t i = index - d->p[axis];
    if (code == RT_PAD_REFLECT) i = i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
    if (code == RT_PAD_EDGE) i = i < 0 ? 0 : i >= size ? size - 1 : i;
    return i >= 0 && i < size ? i : -1;
}

/* A row whose other indices lie in the padding reads nothing. */
static void pad_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_pad_args d = rt_pad_args_of(call);
    const int32_t *xs = d.xs, *ys = d.ys;
    uint32_t code = call->codes.pad;
    float *y = rt_nest_element(&call->tensors[RT_PAD_Y], index, ys, 4);
    const float *x = rt_floats(&call->tensors[RT_PAD_X]);
    bool row_inside = true;
    for (uint32_t axis = 0; axis < 3; axis++) {
        int64_t source = pad_source(code, &d, index[axis], axis);
        row_inside = row_inside && source >= 0;
        x += row_inside ? source * xs[axis] : 0;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t source = row_inside ? pad_source(code, &d, index[3] + i, 3) : -1;
        y[i * ys[3]] = source >= 0 ? x[source * xs[3]] : d.value;
    }
}

static void pad_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_pad_args d = rt_pad_args_of(call);
    rt_nest_run(call, workers, d.d, 4, 1, pad_piece);
}

const rt_cpu_operator rt_cpu_pad = {RT_PAD_ROW, .check = pad_check, .run = pad_run};
