/* unary and binary: nests of four loops, of any strides. The _check and _run functions keep the contract of
 * rt_cpu_operator. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/cpu/cpu_nests.h"
#include "../../native/src/cpu/cpu_tile.h"
#include "../../native/src/cpu/cpu_vector.h"

/* --- unary --- */

static const char *unary_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_unary_args d = rt_unary_args_of(call);
    if (!rt_nest_is_countable(d.d, 4)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_UNARY_X], d.d, d.xs, 4)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_UNARY_Y], d.d, d.ys, 4)) return "the output exceeds its pool";
    needs->work = rt_nest_elements(d.d, 4);
    return NULL;
}

/* Elements that stay in the first cache between the copies and the function. */
enum { TAKEN = 2048 };

/* A piece, some elements at a time, with the loops of this CPU's instruction set; y may be x. */
static void unary_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_unary_args d = rt_unary_args_of(call);
    const float *x = rt_nest_element(&call->tensors[RT_UNARY_X], index, d.xs, 4);
    float *y = rt_nest_element(&call->tensors[RT_UNARY_Y], index, d.ys, 4), taken[TAKEN];
    int64_t xs = d.xs[3], ys = d.ys[3];
    for (int64_t first = 0; first < count; first += TAKEN, x += TAKEN * xs, y += TAKEN * ys) {
        int64_t part = count - first < TAKEN ? count - first : TAKEN;
        float *values = ys == 1 ? y : taken;
        if (xs == 1) memmove(values, x, (size_t)part * sizeof *y);
        for (int64_t i = 0; i < part && xs != 1; i++) values[i] = x[i * xs];
        call->tiles->apply(call->codes.unary, d.alpha, d.beta, values, (uint64_t)part);
        for (int64_t i = 0; i < part && ys != 1; i++) y[i * ys] = values[i];
    }
}

static void unary_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_unary_args d = rt_unary_args_of(call);
    rt_nest_run(call, workers, d.d, 4, 1, unary_piece);
}

/* --- binary --- */

static const char *binary_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_binary_args d = rt_binary_args_of(call);
    if (!rt_nest_is_countable(d.d, 4)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_BINARY_A], d.d, d.as, 4)) return "a exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_BINARY_B], d.d, d.bs, 4)) return "b exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_BINARY_Y], d.d, d.ys, 4)) return "the output exceeds its pool";
    needs->work = rt_nest_elements(d.d, 4);
    return NULL;
}

/* The loop of one case: y from a and b. */
#define EACH_PAIR(expression)                      \
    for (int64_t i = 0; i < count; i++) {          \
        float a = left[i * as], b = right[i * bs]; \
        y[i * ys] = (expression);                  \
    }                                              \
    break

/* Sums, or products, of neighbours with neighbours, or with one number: loops that become vectors. */
static void neighbours(bool multiplies, const float *a, const float *b, bool is_one, int64_t count, float *y) {
    float one = *b;
    if (multiplies && is_one) {
        for (int64_t i = 0; i < count; i++) y[i] = a[i] * one;
    } else if (multiplies) {
        for (int64_t i = 0; i < count; i++) y[i] = a[i] * b[i];
    } else if (is_one) {
        for (int64_t i = 0; i < count; i++) y[i] = a[i] + one;
    } else {
        for (int64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
    }
}

static void pairs_compute(uint32_t binary, const float *left, int64_t as, const float *right, int64_t bs, int64_t count,
                          float *y, int64_t ys) {
    switch (binary) {
        case RT_BINARY_ADD: EACH_PAIR(a + b);
        case RT_BINARY_SUB: EACH_PAIR(a - b);
        case RT_BINARY_MUL: EACH_PAIR(a * b);
        case RT_BINARY_DIV: EACH_PAIR(a / b);
        case RT_BINARY_MAX: EACH_PAIR(rt_greater(a, b));
        case RT_BINARY_MIN: EACH_PAIR(rt_less(a, b));
        case RT_BINARY_POW: EACH_PAIR(powf(a, b));
        default: EACH_PAIR(a < 0.0f ? a * b : a);
    }
}

/* The operation on a row, then the activation over the result, unless it is none: a clamp without bounds. */
static void row_compute(const rt_cpu_call *call, const rt_binary_args *d, const float *left, const float *right, float *y,
                        int64_t count) {
    int64_t as = d->as[3], bs = d->bs[3], ys = d->ys[3];
    uint32_t binary = call->codes.binary;
    if ((binary == RT_BINARY_ADD || binary == RT_BINARY_MUL) && as == 1 && (bs == 1 || bs == 0) && ys == 1) {
        neighbours(binary == RT_BINARY_MUL, left, right, bs == 0, count, y);
    } else {
        pairs_compute(binary, left, as, right, bs, count, y, ys);
    }
    float low = d->act_a, high = d->act_b;
    bool none = call->codes.activation == RT_UNARY_CLAMP && low == -INFINITY && high == INFINITY;
    if (none) return;
    if (ys == 1) {
        call->tiles->apply(call->codes.activation, low, high, y, (uint64_t)count);
    } else {
        for (int64_t i = 0; i < count; i++) y[i * ys] = rt_activate(call->codes.activation, y[i * ys], low, high);
    }
}

static void binary_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_binary_args d = rt_binary_args_of(call);
    row_compute(call, &d, rt_nest_element(&call->tensors[RT_BINARY_A], index, d.as, 4),
                rt_nest_element(&call->tensors[RT_BINARY_B], index, d.bs, 4),
                rt_nest_element(&call->tensors[RT_BINARY_Y], index, d.ys, 4), count);
}

/* Products of rows of neighbours with one such row, all of whole registers. */
static void rows_multiply(const float *a, const float *b, int64_t length, int64_t count, float *y) {
    for (int64_t i = 0; i < count; i += length) {
        for (int64_t k = 0; k < length; k += LANES) store(y + i + k, load(a + i + k) * load(b + k));
    }
}

/* Several short rows. */
static void binary_rows(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_binary_args d = rt_binary_args_of(call);
    const float *left = rt_nest_element(&call->tensors[RT_BINARY_A], index, d.as, 3);
    const float *right = rt_nest_element(&call->tensors[RT_BINARY_B], index, d.bs, 3);
    float *y = rt_nest_element(&call->tensors[RT_BINARY_Y], index, d.ys, 3);
    int64_t length = d.d[3];
    bool follow = d.as[2] == length && d.ys[2] == length && d.bs[2] == 0 && d.as[3] == 1 && d.bs[3] == 1 && d.ys[3] == 1;
    bool none = call->codes.activation == RT_UNARY_CLAMP && d.act_a == -INFINITY && d.act_b == INFINITY;
    if (follow && none && call->codes.binary == RT_BINARY_MUL && length % LANES == 0) {
        rows_multiply(left, right, length, count * length, y);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        row_compute(call, &d, left + i * d.as[2], right + i * d.bs[2], y + i * d.ys[2], length);
    }
}

enum { SHORT_ROW = 64 }; /* which is computed in the time that it takes to find it */

static void binary_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_binary_args d = rt_binary_args_of(call);
    if (d.d[3] <= SHORT_ROW) {
        rt_nest_run(call, workers, d.d, 3, d.d[3], binary_rows);
    } else {
        rt_nest_run(call, workers, d.d, 4, 1, binary_piece);
    }
}

const rt_cpu_operator rt_cpu_unary = {RT_UNARY_ROW, .check = unary_check, .run = unary_run};
const rt_cpu_operator rt_cpu_binary = {RT_BINARY_ROW, .check = binary_check, .run = binary_run};
