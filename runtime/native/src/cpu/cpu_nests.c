/* Nested loops with strides, in any storage: copy, unary, binary, pad, reduce, softmax.
 *
 * Above each operator stand its ints in order: extents (d), then the strides of each tensor in elements (xs, as, bs,
 * ys), which may be negative or 0. copy to pad run over all axes alike (a nest, divided along its rows); reduce and
 * softmax run along the middle of three. The _check and _run functions keep the contract of rt_cpu_operator.
 */
#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "cpu_math.h"
#include "cpu_operator.h"

enum { ELEMENTS_PER_TURN = 8192, INNER_PER_TURN = 64, SHORT_LENGTH = 16 };

/* Loops of up to six axes, cut into rows of the last axis and those into pieces. */
typedef struct {
    const rt_cpu_call *call;
    void (*piece)(const rt_cpu_call *call, const int64_t *index, int64_t count);
    const int32_t *extents;
    uint32_t rank;
    uint64_t rows, pieces; /* pieces of a row */
    uint64_t rows_per_turn;
} nest;

/* Position of a row: its index on every axis but the last. */
static void row_index(const nest *all, uint64_t row, int64_t *index) {
    for (uint32_t axis = all->rank - 1; axis-- > 0;) {
        index[axis] = (int64_t)(row % (uint64_t)all->extents[axis]);
        row /= (uint64_t)all->extents[axis];
    }
}

/* A turn: some rows where rows are short, else one piece of a row. */
static void nest_turn(const void *context, uint32_t turn, uint32_t worker) {
    const nest *all = context;
    int64_t index[6] = {0};
    int64_t length = all->extents[all->rank - 1];
    uint64_t first = turn / all->pieces * all->rows_per_turn;
    (void)worker;
    for (uint64_t row = first; row < first + all->rows_per_turn && row < all->rows; row++) {
        row_index(all, row, index);
        int64_t start = (int64_t)(turn % all->pieces) * ELEMENTS_PER_TURN;
        index[all->rank - 1] = start;
        all->piece(all->call, index, length - start < ELEMENTS_PER_TURN ? length - start : ELEMENTS_PER_TURN);
    }
}

/* Product of extents, which are positive; UINT64_MAX where it overflows. */
static uint64_t nest_elements(const int32_t *extents, uint32_t rank) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count = rt_product(count, (uint64_t)extents[i]);
    return count;
}

/* Extents are positive, and turns can be counted. */
static bool nest_is_valid(const int32_t *extents, uint32_t rank) {
    return rt_all_at_least(extents, rank, 1) && nest_elements(extents, rank) <= UINT32_MAX;
}

/* Calls `piece` for every piece of the nest whose extents are the first `rank` ints: with the index of its first
 * element, and how many elements it has along the last axis. */
static void nest_run(const rt_cpu_call *call, rt_workers *workers, uint32_t rank,
                     void (*piece)(const rt_cpu_call *, const int64_t *, int64_t)) {
    nest all = {.call = call, .piece = piece, .extents = call->ints, .rank = rank};
    uint64_t length = (uint64_t)all.extents[rank - 1];
    all.rows = nest_elements(all.extents, rank - 1);
    all.pieces = rt_ceil_div(length, ELEMENTS_PER_TURN);
    all.rows_per_turn = length < ELEMENTS_PER_TURN ? ELEMENTS_PER_TURN / length : 1;
    rt_workers_run(workers, (uint32_t)(rt_ceil_div(all.rows, all.rows_per_turn) * all.pieces), nest_turn, &all);
}

/* Address of the element at an index. */
static float *element(const rt_cpu_tensor *tensor, const int64_t *index, const int32_t *strides, uint32_t rank) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < rank; i++) offset += index[i] * strides[i];
    return tensor->data + offset;
}

/* --- copy: ints d0-5, xs0-5, ys0-5 --- */

static const char *copy_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const int32_t *d = call->ints;
    if (!nest_is_valid(d, 6)) return "a size is out of range";
    if (!rt_nest_fits(&call->tensors[0], d, d + 6, 6)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[1], d, d + 12, 6)) return "the output exceeds its pool";
    needs->work = nest_elements(d, 6);
    return NULL;
}

/* A piece along the last axis; memmove, since a copy may be within one pool. */
static void copy_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    const int32_t *xs = call->ints + 6, *ys = call->ints + 12;
    const float *x = element(&call->tensors[0], index, xs, 6);
    float *y = element(&call->tensors[1], index, ys, 6);
    if (xs[5] == 1 && ys[5] == 1) {
        memmove(y, x, (size_t)count * sizeof *y);
        return;
    }
    for (int64_t i = 0; i < count; i++) y[i * ys[5]] = x[i * xs[5]];
}

/* A piece of the fifth axis with the whole of the sixth, which is so short that the fifth makes the inner loop. */
static void copy_short_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    const int32_t *xs = call->ints + 6, *ys = call->ints + 12;
    const float *x = element(&call->tensors[0], index, xs, 5);
    float *y = element(&call->tensors[1], index, ys, 5);
    for (int64_t k = 0; k < call->ints[5]; k++, x += xs[5], y += ys[5]) {
        for (int64_t i = 0; i < count; i++) y[i * ys[4]] = x[i * xs[4]];
    }
}

/* By the fifth axis where the sixth is short: a loop of a few elements costs more than it moves. */
static void copy_run(const rt_cpu_call *call, rt_workers *workers) {
    bool is_short = call->ints[5] < SHORT_LENGTH && call->ints[4] > call->ints[5];
    if (is_short) {
        nest_run(call, workers, 5, copy_short_piece);
    } else {
        nest_run(call, workers, 6, copy_piece);
    }
}

/* --- unary: ints d0-3, xs0-3, ys0-3; floats alpha, beta --- */

static const char *unary_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const int32_t *d = call->ints;
    if (!nest_is_valid(d, 4)) return "a size is out of range";
    if (!rt_nest_fits(&call->tensors[0], d, d + 4, 4)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[1], d, d + 8, 4)) return "the output exceeds its pool";
    needs->work = nest_elements(d, 4);
    return NULL;
}

/* The loop of one case: y from v, which is the element of x. */
#define EACH(expression)                  \
    for (int64_t i = 0; i < count; i++) { \
        float v = x[i * xs];              \
        y[i * ys] = (expression);         \
    }                                     \
    break

/* One operation over the piece: the choice is made outside of the loop, so that it vectorizes. */
static void unary_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    const float *x = element(&call->tensors[0], index, call->ints + 4, 4);
    float *y = element(&call->tensors[1], index, call->ints + 8, 4);
    int64_t xs = call->ints[7], ys = call->ints[11];
    float a = call->floats[0], b = call->floats[1];
    switch (call->codes.unary) {
        case RT_UNARY_EXP: EACH(expf(v));
        case RT_UNARY_LOG: EACH(logf(v));
        case RT_UNARY_SQRT: EACH(sqrtf(v));
        case RT_UNARY_NEG: EACH(-v);
        case RT_UNARY_ABS: EACH(fabsf(v));
        case RT_UNARY_FLOOR: EACH(floorf(v));
        case RT_UNARY_CEIL: EACH(ceilf(v));
        case RT_UNARY_ERF: EACH(erff(v));
        case RT_UNARY_RECIPROCAL: EACH(1.0f / v);
        case RT_UNARY_ROUND: EACH(rintf(v));
        case RT_UNARY_SOFTPLUS: EACH(rt_softplus(v));
        case RT_UNARY_SIN: EACH(sinf(v));
        case RT_UNARY_COS: EACH(cosf(v));
        case RT_UNARY_CLAMP: EACH(rt_clamp(v, a, b));
        default: EACH(rt_activate(call->codes.unary, v, a, b));
    }
}

static void unary_run(const rt_cpu_call *call, rt_workers *workers) { nest_run(call, workers, 4, unary_piece); }

_Static_assert((int)RT_UNARY_HARD_SWISH == (int)RT_ACTIVATION_HARD_SWISH, "an activation has the number of its function");
_Static_assert((int)RT_UNARY_CELU == (int)RT_ACTIVATION_CELU, "an activation has the number of its function");

/* --- binary: ints d0-3, as0-3, bs0-3, ys0-3; floats of the activation --- */

static const char *binary_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const int32_t *d = call->ints;
    if (!nest_is_valid(d, 4)) return "a size is out of range";
    if (!rt_nest_fits(&call->tensors[0], d, d + 4, 4)) return "a exceeds its pool";
    if (!rt_nest_fits(&call->tensors[1], d, d + 8, 4)) return "b exceeds its pool";
    if (!rt_nest_fits(&call->tensors[2], d, d + 12, 4)) return "the output exceeds its pool";
    needs->work = nest_elements(d, 4);
    return NULL;
}

/* The loop of one case: y from a and b. */
#define EACH_PAIR(expression)                      \
    for (int64_t i = 0; i < count; i++) {          \
        float a = left[i * as], b = right[i * bs]; \
        y[i * ys] = (expression);                  \
    }                                              \
    break

/* The operation, then the activation over the result, unless it is none: a clamp without bounds. */
static void binary_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    const float *left = element(&call->tensors[0], index, call->ints + 4, 4);
    const float *right = element(&call->tensors[1], index, call->ints + 8, 4);
    float *y = element(&call->tensors[2], index, call->ints + 12, 4);
    int64_t as = call->ints[7], bs = call->ints[11], ys = call->ints[15];
    switch (call->codes.binary) {
        case RT_BINARY_ADD: EACH_PAIR(a + b);
        case RT_BINARY_SUB: EACH_PAIR(a - b);
        case RT_BINARY_MUL: EACH_PAIR(a * b);
        case RT_BINARY_DIV: EACH_PAIR(a / b);
        case RT_BINARY_MAX: EACH_PAIR(rt_greater(a, b));
        case RT_BINARY_MIN: EACH_PAIR(rt_less(a, b));
        case RT_BINARY_POW: EACH_PAIR(powf(a, b));
        default: EACH_PAIR(a < 0.0f ? a * b : a);
    }
    float low = call->floats[0], high = call->floats[1];
    bool none = call->codes.activation == RT_ACTIVATION_CLAMP && low == -INFINITY && high == INFINITY;
    for (int64_t i = 0; !none && i < count; i++) y[i * ys] = rt_activate(call->codes.activation, y[i * ys], low, high);
}

static void binary_run(const rt_cpu_call *call, rt_workers *workers) { nest_run(call, workers, 4, binary_piece); }

/* --- pad: ints d0-3 (of the output), i0-3 (of the input), p0-3 (padding before), xs0-3, ys0-3; float value --- */

static const char *pad_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const int32_t *d = call->ints;
    if (!nest_is_valid(d, 4) || !nest_is_valid(d + 4, 4)) return "a size is out of range";
    if (!rt_nest_fits(&call->tensors[0], d + 4, d + 12, 4)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[1], d, d + 16, 4)) return "the output exceeds its pool";
    needs->work = nest_elements(d, 4);
    return NULL;
}

/* Input index on an axis for an output index, -1 where the constant stands. */
static int64_t pad_source(const rt_cpu_call *call, int64_t index, uint32_t axis) {
    int64_t size = call->ints[4 + axis];
    int64_t i = index - call->ints[8 + axis];
    if (call->codes.pad == RT_PAD_REFLECT) i = i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
    if (call->codes.pad == RT_PAD_EDGE) i = i < 0 ? 0 : i >= size ? size - 1 : i;
    return i >= 0 && i < size ? i : -1;
}

/* A row whose other indices lie in the padding reads nothing. */
static void pad_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    const int32_t *xs = call->ints + 12, *ys = call->ints + 16;
    float *y = element(&call->tensors[1], index, ys, 4);
    const float *x = call->tensors[0].data;
    bool row_inside = true;
    for (uint32_t axis = 0; axis < 3; axis++) {
        int64_t source = pad_source(call, index[axis], axis);
        row_inside = row_inside && source >= 0;
        x += row_inside ? source * xs[axis] : 0;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t source = row_inside ? pad_source(call, index[3] + i, 3) : -1;
        y[i * ys[3]] = source >= 0 ? x[source * xs[3]] : call->floats[0];
    }
}

static void pad_run(const rt_cpu_call *call, rt_workers *workers) { nest_run(call, workers, 4, pad_piece); }

/* --- loops over the middle of three axes: turns are an outer index and a piece of the inner ones --- */

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    void (*piece)(const rt_cpu_call *call, int64_t outer, int64_t first, int64_t count);
    uint64_t pieces;
} middle;

/* A turn: one piece of the inner indices at one outer index. */
static void middle_turn(const void *context, uint32_t turn, uint32_t worker) {
    const middle *all = context;
    int64_t inner = all->call->ints[2];
    int64_t first = (int64_t)(turn % all->pieces) * INNER_PER_TURN;
    (void)worker;
    all->piece(all->call, (int64_t)(turn / all->pieces), first,
               inner - first < INNER_PER_TURN ? inner - first : INNER_PER_TURN);
}

/* Calls `piece` for every outer index and piece of at most INNER_PER_TURN inner indices. */
static void middle_run(const rt_cpu_call *call, rt_workers *workers,
                       void (*piece)(const rt_cpu_call *, int64_t, int64_t, int64_t)) {
    middle all = {call, piece, rt_ceil_div((uint64_t)call->ints[2], INNER_PER_TURN)};
    rt_workers_run(workers, (uint32_t)((uint64_t)call->ints[0] * all.pieces), middle_turn, &all);
}

/* --- reduce: ints outer, reduced, inner, strides of x (3), strides of y (outer, inner) --- */

static const char *reduce_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const int32_t *d = call->ints;
    const int32_t y_extents[] = {d[0], d[2]};
    if (!nest_is_valid(d, 3)) return "a size is out of range";
    if (!rt_nest_fits(&call->tensors[0], d, d + 3, 3)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[1], y_extents, d + 6, 2)) return "the output exceeds its pool";
    needs->work = nest_elements(d, 3);
    return NULL;
}

#define LINES_PER_PART 4096

/* Adds a line of inputs to the results so far; a mean is a sum until it is divided. */
static void reduce_combine(uint32_t code, float *result, const float *x, int64_t stride, int64_t count) {
    switch (code) {
        case RT_REDUCE_MAX:
            for (int64_t i = 0; i < count; i++) result[i] = rt_greater(result[i], x[i * stride]);
            break;
        case RT_REDUCE_MIN:
            for (int64_t i = 0; i < count; i++) result[i] = rt_less(result[i], x[i * stride]);
            break;
        default:
            for (int64_t i = 0; i < count; i++) result[i] += x[i * stride];
    }
}

/* Line by line, so that the inner index runs through neighbours; a mean is divided at the end. Lines add up in parts,
 * and these do: in a single sum, what comes after many millions of elements is rounded away. */
static void reduce_piece(const rt_cpu_call *call, int64_t outer, int64_t first, int64_t count) {
    const int32_t *d = call->ints;
    uint32_t code = call->codes.reduce;
    const float *x = call->tensors[0].data + outer * d[3] + first * d[5];
    float *y = call->tensors[1].data + outer * d[6] + first * d[7];
    float result[INNER_PER_TURN], part[INNER_PER_TURN];
    float start = code == RT_REDUCE_MAX ? -INFINITY : code == RT_REDUCE_MIN ? INFINITY : 0.0f;
    for (int64_t i = 0; i < count; i++) result[i] = start;
    for (int64_t from = 0; from < d[1]; from += LINES_PER_PART) {
        int64_t lines = d[1] - from < LINES_PER_PART ? d[1] - from : LINES_PER_PART;
        for (int64_t i = 0; i < count; i++) part[i] = start;
        for (int64_t r = from; r < from + lines; r++) reduce_combine(code, part, x + r * d[4], d[5], count);
        reduce_combine(code, result, part, 1, count);
    }
    float divisor = code == RT_REDUCE_MEAN ? (float)d[1] : 1.0f;
    for (int64_t i = 0; i < count; i++) y[i * d[7]] = result[i] / divisor;
}

static void reduce_run(const rt_cpu_call *call, rt_workers *workers) { middle_run(call, workers, reduce_piece); }

/* --- softmax: ints outer, length, inner, strides of x (3), strides of y (3) --- */

static const char *softmax_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const int32_t *d = call->ints;
    if (!nest_is_valid(d, 3)) return "a size is out of range";
    if (!rt_nest_fits(&call->tensors[0], d, d + 3, 3)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[1], d, d + 6, 3)) return "the output exceeds its pool";
    needs->work = nest_elements(d, 3);
    return NULL;
}

/* Relative to the greatest value, so that no exponential overflows: the greatest, the sum, then the results. */
static void softmax_piece(const rt_cpu_call *call, int64_t outer, int64_t first, int64_t count) {
    const int32_t *d = call->ints;
    const float *x = call->tensors[0].data + outer * d[3] + first * d[5];
    float *y = call->tensors[1].data + outer * d[6] + first * d[8];
    float greatest[INNER_PER_TURN], sum[INNER_PER_TURN];
    for (int64_t i = 0; i < count; i++) greatest[i] = -INFINITY, sum[i] = 0.0f;
    for (int64_t l = 0; l < d[1]; l++) reduce_combine(RT_REDUCE_MAX, greatest, x + l * d[4], d[5], count);
    for (int64_t l = 0; l < d[1]; l++) {
        for (int64_t i = 0; i < count; i++) sum[i] += expf(x[l * d[4] + i * d[5]] - greatest[i]);
    }
    for (int64_t l = 0; l < d[1]; l++) {
        for (int64_t i = 0; i < count; i++) {
            float v = x[l * d[4] + i * d[5]] - greatest[i];
            y[l * d[7] + i * d[8]] = call->codes.log ? v - logf(sum[i]) : expf(v) / sum[i];
        }
    }
}

static void softmax_run(const rt_cpu_call *call, rt_workers *workers) { middle_run(call, workers, softmax_piece); }

const rt_cpu_operator rt_cpu_copy = {"copy", "ff", 18, 0, copy_check, copy_run, NULL};
const rt_cpu_operator rt_cpu_unary = {"unary", "ff", 12, 2, unary_check, unary_run, NULL};
const rt_cpu_operator rt_cpu_binary = {"binary", "fff", 16, 2, binary_check, binary_run, NULL};
const rt_cpu_operator rt_cpu_pad = {"pad", "ff", 20, 1, pad_check, pad_run, NULL};
const rt_cpu_operator rt_cpu_reduce = {"reduce", "ff", 8, 0, reduce_check, reduce_run, NULL};
const rt_cpu_operator rt_cpu_softmax = {"softmax", "ff", 9, 0, softmax_check, softmax_run, NULL};
