/* pad: a nest of four loops with extents d of the output and i of the input, p elements before it on each axis. The
 * _check and _run functions keep the contract of rt_cpu_operator. */
#include <stddef.h>
#include <string.h>

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

/* The elements of a row along the last axis from `from` to `end`; x is the input's row, NULL in the padding. */
static void elements_pad(uint32_t code, const rt_pad_args *d, const float *x, int64_t from, int64_t end, float *y) {
    for (int64_t i = from; i < end; i++) {
        int64_t source = x != NULL ? pad_source(code, d, i, 3) : -1;
        y[i * d->ys[3]] = source >= 0 ? x[source * d->xs[3]] : d->value;
    }
}

/* A row, of which the middle needs no look at where it is from. */
static void row_pad(uint32_t code, const rt_pad_args *d, const float *x, float *y) {
    int64_t size = d->d[3], first = d->p[3] < 0 ? 0 : d->p[3], end = (int64_t)d->p[3] + d->i[3];
    if (end > size) end = size;
    if (x == NULL || first >= end) end = first = size;
    elements_pad(code, d, x, 0, first, y);
    const float *middle = first < end ? x + (first - d->p[3]) * d->xs[3] : x;
    if (first < end && d->xs[3] == 1 && d->ys[3] == 1) memcpy(y + first, middle, (size_t)(end - first) * sizeof *y);
    else for (int64_t i = first; i < end; i++, middle += d->xs[3]) y[i * d->ys[3]] = *middle;
    elements_pad(code, d, x, end, size, y);
}

/* Whether rows are neighbours on both sides, and nothing is added to any: runs of them are copied at once. */
static bool rows_are_whole(const rt_pad_args *d) {
    return d->p[3] == 0 && d->d[3] == d->i[3] && d->xs[3] == 1 && d->ys[3] == 1 && d->xs[2] == d->d[3] &&
           d->ys[2] == d->d[3];
}

/* Rows that follow each other. Those whose other indices lie in the padding read nothing. */
static void pad_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_pad_args d = rt_pad_args_of(call);
    uint32_t code = call->codes.pad;
    float *y = rt_nest_element(&call->tensors[RT_PAD_Y], index, d.ys, 3);
    const float *x = rt_floats(&call->tensors[RT_PAD_X]);
    bool is_inside = true, is_whole = rows_are_whole(&d);
    for (uint32_t axis = 0; axis < 2; axis++) {
        int64_t source = pad_source(code, &d, index[axis], axis);
        is_inside = is_inside && source >= 0;
        x += is_inside ? source * d.xs[axis] : 0;
    }
    for (int64_t i = 0, rows = 1; i < count; i += rows, y += rows * d.ys[2]) {
        int64_t source = is_inside ? pad_source(code, &d, index[2] + i, 2) : -1, rest = d.i[2] - source;
        bool is_run = is_whole && source >= 0 && index[2] + i - d.p[2] == source;
        rows = !is_run ? 1 : rest < count - i ? rest : count - i;
        if (is_run) memcpy(y, x + source * d.xs[2], (size_t)(rows * d.d[3]) * sizeof *y);
        else row_pad(code, &d, source >= 0 ? x + source * d.xs[2] : NULL, y);
    }
}

static void pad_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_pad_args d = rt_pad_args_of(call);
    rt_nest_run(call, workers, d.d, 3, d.d[3], pad_piece);
}

const rt_cpu_operator rt_cpu_pad = {RT_PAD_ROW, .check = pad_check, .run = pad_run};
