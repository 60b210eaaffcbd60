/* copy: a nest of six loops, of any strides. The _check and _run functions keep the contract of rt_cpu_operator. */
#include <stddef.h>
#include <string.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_nests.h"

/* Elements of the sixth axis below which the fifth makes the inner loop. */
enum { SHORT_LENGTH = 16 };

static const char *copy_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_copy_args d = rt_copy_args_of(call);
    if (!rt_nest_is_countable(d.d, 6)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_COPY_X], d.d, d.xs, 6)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_COPY_Y], d.d, d.ys, 6)) return "the output exceeds its pool";
    needs->work = rt_nest_elements(d.d, 6);
    return NULL;
}

/* A piece along the last axis; memmove, since a copy may be within one pool. */
static void copy_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_copy_args d = rt_copy_args_of(call);
    const int32_t *xs = d.xs, *ys = d.ys;
    const float *x = rt_nest_element(&call->tensors[RT_COPY_X], index, xs, 6);
    float *y = rt_nest_element(&call->tensors[RT_COPY_Y], index, ys, 6);
    if (xs[5] == 1 && ys[5] == 1) {
        memmove(y, x, (size_t)count * sizeof *y);
        return;
    }
    for (int64_t i = 0; i < count; i++) y[i * ys[5]] = x[i * xs[5]];
}

/* `count` runs of `length` elements that follow each other, some at a time. */
static void copy_runs(const float *x, int64_t x_step, float *y, int64_t y_step, int64_t length, int64_t count) {
    for (int64_t i = 0; i < count; i++, x += x_step, y += y_step) {
        int64_t k = 0;
        for (; k + 4 <= length; k += 4) memcpy(y + k, x + k, 4 * sizeof *y);
        for (; k < length; k++) y[k] = x[k];
    }
}

/* A piece of the fifth axis with the whole of the sixth, which is so short that the fifth makes the inner loop. */
static void copy_short_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_copy_args d = rt_copy_args_of(call);
    const int32_t *xs = d.xs, *ys = d.ys;
    const float *x = rt_nest_element(&call->tensors[RT_COPY_X], index, xs, 5);
    float *y = rt_nest_element(&call->tensors[RT_COPY_Y], index, ys, 5);
    if (xs[5] == 1 && ys[5] == 1) {
        copy_runs(x, xs[4], y, ys[4], d.d[5], count);
        return;
    }
    for (int64_t k = 0; k < d.d[5]; k++, x += xs[5], y += ys[5]) {
        for (int64_t i = 0; i < count; i++) y[i * ys[4]] = x[i * xs[4]];
    }
}

/* By the fifth axis where the sixth is short: a loop of a few elements costs more than it moves. */
static void copy_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_copy_args d = rt_copy_args_of(call);
    bool is_short = d.d[5] < SHORT_LENGTH && d.d[4] > d.d[5];
    if (is_short) {
        rt_nest_run(call, workers, d.d, 5, 1, copy_short_piece);
    } else {
        rt_nest_run(call, workers, d.d, 6, 1, copy_piece);
    }
}

const rt_cpu_operator rt_cpu_copy = {RT_COPY_ROW, .check = copy_check, .run = copy_run};
