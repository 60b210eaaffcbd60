/* Nested loops with strides, in any storage: copy, unary, binary, pad, reduce, softmax.
 *
 * Each has extents (d) and the strides of each tensor in elements (xs, as, bs, ys), which may be negative or 0. copy to
 * pad run over all axes alike (a nest, divided along its rows); reduce and
 * softmax run along the middle of three. The _check and _run functions keep the contract of rt_cpu_operator.
 */
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"

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

/* Whether turns can be counted. */
static bool nest_is_countable(const int32_t *extents, uint32_t rank) {
    return nest_elements(extents, rank) <= UINT32_MAX;
}

/* Calls `piece` for every piece of the nest of the first `rank` extents, which outlive the call: with the index of its first
 * element, and how many elements it has along the last axis. */
static void nest_run(const rt_cpu_call *call, rt_workers *workers, const int32_t *extents, uint32_t rank,
                     void (*piece)(const rt_cpu_call *, const int64_t *, int64_t)) {
    nest all = {.call = call, .piece = piece, .extents = extents, .rank = rank};
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

/* --- copy --- */

static const char *copy_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_copy_args d = rt_copy_args_of(call);
    if (!nest_is_countable(d.d, 6)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_COPY_X], d.d, d.xs, 6)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_COPY_Y], d.d, d.ys, 6)) return "the output exceeds its pool";
    needs->work = nest_elements(d.d, 6);
    return NULL;
}

/* A piece along the last axis; memmove, since a copy may be within one pool. */
static void copy_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_copy_args d = rt_copy_args_of(call);
    const int32_t *xs = d.xs, *ys = d.ys;
    const float *x = element(&call->tensors[RT_COPY_X], index, xs, 6);
    float *y = element(&call->tensors[RT_COPY_Y], index, ys, 6);
    if (xs[5] == 1 && ys[5] == 1) {
        memmove(y, x, (size_t)count * sizeof *y);
        return;
    }
    for (int64_t i = 0; i < count; i++) y[i * ys[5]] = x[i * xs[5]];
}

/* A piece of the fifth axis with the whole of the sixth, which is so short that the fifth makes the inner loop. */
static void copy_short_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_copy_args d = rt_copy_args_of(call);
    const int32_t *xs = d.xs, *ys = d.ys;
    const float *x = element(&call->tensors[RT_COPY_X], index, xs, 5);
    float *y = element(&call->tensors[RT_COPY_Y], index, ys, 5);
    for (int64_t k = 0; k < d.d[5]; k++, x += xs[5], y += ys[5]) {
        for (int64_t i = 0; i < count; i++) y[i * ys[4]] = x[i * xs[4]];
    }
}

/* By the fifth axis where the sixth is short: a loop of a few elements costs more than it moves. */
static void copy_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_copy_args d = rt_copy_args_of(call);
    bool is_short = d.d[5] < SHORT_LENGTH && d.d[4] > d.d[5];
    if (is_short) {
        nest_run(call, workers, d.d, 5, copy_short_piece);
    } else {
        nest_run(call, workers, d.d, 6, copy_piece);
    }
}

/* --- unary --- */

static const char *unary_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_unary_args d = rt_unary_args_of(call);
    if (!nest_is_countable(d.d, 4)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_UNARY_X], d.d, d.xs, 4)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_UNARY_Y], d.d, d.ys, 4)) return "the output exceeds its pool";
    needs->work = nest_elements(d.d, 4);
    return NULL;
}

/* The loop of one case: y from v, which is the element of x. */
#define EACH(expression)                  \
    for (int64_t i = 0; i < count; i++) { \
        float v = x[i * xs];              \
        y[i * ys] = (expression);         \
    }                                     \
    break

#define EACH_CASE(code, call) \
    case code: EACH(call);

/* One operation over the piece: the choice is made outside of the loop, so that it vectorizes. */
static void unary_piece(const rt_cpu_call *call, const int64_t *index, int64_t count) {
    rt_unary_args d = rt_unary_args_of(call);
    const float *x = element(&call->tensors[RT_UNARY_X], index, d.xs, 4);
    float *y = element(&call->tensors[RT_UNARY_Y], index, d.ys, 4);
    int64_t xs = d.xs[3], ys = d.ys[3];
    float a = d.alpha, b = d.beta;
    switch (call->codes.unary) { RT_UNARIES(EACH_CASE) }
}

static void unary_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_unary_args d = rt_unary_args_of(call);
    nest_run(call, workers, d.d, 4, unary_piece);
}

/* --- binary --- */

static const char *binary_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_binary_args d = rt_binary_args_of(call);
    if (!nest_is_countable(d.d, 4)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_BINARY_A], d.d, d.as, 4)) return "a exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_BINARY_B], d.d, d.bs, 4)) return "b exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_BINARY_Y], d.d, d.ys, 4)) return "the output exceeds its pool";
    needs->work = nest_elements(d.d, 4);
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
    rt_binary_args d = rt_binary_args_of(call);
    const float *left = element(&call->tensors[RT_BINARY_A], index, d.as, 4);
    const float *right = element(&call->tensors[RT_BINARY_B], index, d.bs, 4);
    float *y = element(&call->tensors[RT_BINARY_Y], index, d.ys, 4);
    int64_t as = d.as[3], bs = d.bs[3], ys = d.ys[3];
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
    float low = d.act_a, high = d.act_b;
    bool none = call->codes.activation == RT_UNARY_CLAMP && low == -INFINITY && high == INFINITY;
    for (int64_t i = 0; !none && i < count; i++) y[i * ys] = rt_activate(call->codes.activation, y[i * ys], low, high);
}

static void binary_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_binary_args d = rt_binary_args_of(call);
    nest_run(call, workers, d.d, 4, binary_piece);
}

/* --- pad: extents d of the output and i of the input, p elements before it on each axis --- */

static const char *pad_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_pad_args d = rt_pad_args_of(call);
    if (!nest_is_countable(d.d, 4) || !nest_is_countable(d.i, 4)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_PAD_X], d.i, d.xs, 4)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_PAD_Y], d.d, d.ys, 4)) return "the output exceeds its pool";
    needs->work = nest_elements(d.d, 4);
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
    float *y = element(&call->tensors[RT_PAD_Y], index, ys, 4);
    const float *x = call->tensors[RT_PAD_X].data;
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
    nest_run(call, workers, d.d, 4, pad_piece);
}

/* --- loops over the middle of three axes: turns are an outer index and a piece of the inner ones --- */

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    void (*piece)(const rt_cpu_call *call, int64_t outer, int64_t first, int64_t count);
    int64_t inner;
    uint64_t pieces;
} middle;

/* A turn: one piece of the inner indices at one outer index. */
static void middle_turn(const void *context, uint32_t turn, uint32_t worker) {
    const middle *all = context;
    int64_t inner = all->inner;
    int64_t first = (int64_t)(turn % all->pieces) * INNER_PER_TURN;
    (void)worker;
    all->piece(all->call, (int64_t)(turn / all->pieces), first,
               inner - first < INNER_PER_TURN ? inner - first : INNER_PER_TURN);
}

/* Calls `piece` for every outer index and piece of at most INNER_PER_TURN inner indices. */
static void middle_run(const rt_cpu_call *call, rt_workers *workers, int32_t outer, int32_t inner,
                       void (*piece)(const rt_cpu_call *, int64_t, int64_t, int64_t)) {
    middle all = {call, piece, inner, rt_ceil_div((uint64_t)inner, INNER_PER_TURN)};
    rt_workers_run(workers, (uint32_t)((uint64_t)outer * all.pieces), middle_turn, &all);
}

/* --- reduce --- */

static const char *reduce_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_reduce_args d = rt_reduce_args_of(call);
    const int32_t extents[] = {d.outer, d.reduced, d.inner}, y_extents[] = {d.outer, d.inner};
    const int32_t xs[] = {d.x_outer_stride, d.x_reduced_stride, d.x_inner_stride};
    const int32_t ys[] = {d.y_outer_stride, d.y_inner_stride};
    if (!nest_is_countable(extents, 3)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_REDUCE_X], extents, xs, 3)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_REDUCE_Y], y_extents, ys, 2)) return "the output exceeds its pool";
    needs->work = nest_elements(extents, 3);
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
    rt_reduce_args d = rt_reduce_args_of(call);
    uint32_t code = call->codes.reduce;
    const float *x = call->tensors[RT_REDUCE_X].data + outer * d.x_outer_stride + first * d.x_inner_stride;
    float *y = call->tensors[RT_REDUCE_Y].data + outer * d.y_outer_stride + first * d.y_inner_stride;
    float result[INNER_PER_TURN], part[INNER_PER_TURN];
    float start = code == RT_REDUCE_MAX ? -INFINITY : code == RT_REDUCE_MIN ? INFINITY : 0.0f;
    for (int64_t i = 0; i < count; i++) result[i] = start;
    for (int64_t from = 0; from < d.reduced; from += LINES_PER_PART) {
        int64_t end = from + LINES_PER_PART < d.reduced ? from + LINES_PER_PART : d.reduced;
        for (int64_t i = 0; i < count; i++) part[i] = start;
        for (int64_t r = from; r < end; r++) {
            reduce_combine(code, part, x + r * d.x_reduced_stride, d.x_inner_stride, count);
        }
        reduce_combine(code, result, part, 1, count);
    }
    float divisor = code == RT_REDUCE_MEAN ? (float)d.reduced : 1.0f;
    for (int64_t i = 0; i < count; i++) y[i * d.y_inner_stride] = result[i] / divisor;
}

static void reduce_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_reduce_args d = rt_reduce_args_of(call);
    middle_run(call, workers, d.outer, d.inner, reduce_piece);
}

/* --- softmax --- */

static const char *softmax_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_softmax_args d = rt_softmax_args_of(call);
    const int32_t extents[] = {d.outer, d.length, d.inner};
    const int32_t xs[] = {d.x_outer_stride, d.x_stride, d.x_inner_stride};
    const int32_t ys[] = {d.y_outer_stride, d.y_stride, d.y_inner_stride};
    if (!nest_is_countable(extents, 3)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_SOFTMAX_X], extents, xs, 3)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_SOFTMAX_Y], extents, ys, 3)) return "the output exceeds its pool";
    needs->work = nest_elements(extents, 3);
    return NULL;
}

/* Relative to the greatest value, so that no exponential overflows: the greatest, the sum, then the results. */
static void softmax_piece(const rt_cpu_call *call, int64_t outer, int64_t first, int64_t count) {
    rt_softmax_args d = rt_softmax_args_of(call);
    const float *x = call->tensors[RT_SOFTMAX_X].data + outer * d.x_outer_stride + first * d.x_inner_stride;
    float *y = call->tensors[RT_SOFTMAX_Y].data + outer * d.y_outer_stride + first * d.y_inner_stride;
    float greatest[INNER_PER_TURN], sum[INNER_PER_TURN];
    for (int64_t i = 0; i < count; i++) greatest[i] = -INFINITY, sum[i] = 0.0f;
    for (int64_t l = 0; l < d.length; l++) reduce_combine(RT_REDUCE_MAX, greatest, x + l * d.x_stride, d.x_inner_stride, count);
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
    middle_run(call, workers, d.outer, d.inner, softmax_piece);
}

const rt_cpu_operator rt_cpu_copy = {RT_COPY_ROW, .check = copy_check, .run = copy_run};
const rt_cpu_operator rt_cpu_unary = {RT_UNARY_ROW, .check = unary_check, .run = unary_run};
const rt_cpu_operator rt_cpu_binary = {RT_BINARY_ROW, .check = binary_check, .run = binary_run};
const rt_cpu_operator rt_cpu_pad = {RT_PAD_ROW, .check = pad_check, .run = pad_run};
const rt_cpu_operator rt_cpu_reduce = {RT_REDUCE_ROW, .check = reduce_check, .run = reduce_run};
const rt_cpu_operator rt_cpu_softmax = {RT_SOFTMAX_ROW, .check = softmax_check, .run = softmax_run};
