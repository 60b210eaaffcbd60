/* strided_reduction, strided_product, cumulation: what adds up along loops.
 *
 * The first RT_KEPT loops of a reduction and of a product are those of the result, the others are summed over.
 */
#include <stddef.h>

#include "../../native/src/cpu/cpu_strided.h"

enum { X = 0, A = 0, B = 1 };

/* Steps an index of the loops `first` to the last; false behind the end. */
static bool index_step(int64_t *index, const int32_t *extents, uint32_t first, uint32_t last) {
    for (uint32_t axis = last; axis-- > first;) {
        if (++index[axis] < extents[axis]) return true;
        index[axis] = 0;
    }
    return false;
}

/* Sets the index of a row, which has the outer loops, to the first of the inner ones. */
static void index_begin(int64_t *index, const int64_t *outer, uint32_t loops) {
    for (uint32_t i = 0; i < RT_LOOPS; i++) index[i] = i < loops ? outer[i] : 0;
}

/* --- strided_reduction: by function (RT_REDUCTION_FUNCTION_...) --- */

static const char *reduction_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const char *problem = rt_strided_check(call, X, RT_LOOPS);
    if (problem == NULL) problem = rt_strided_check(call, 1, RT_KEPT);
    needs->work = rt_strided_turns(rt_strided_extents(call), 0, RT_LOOPS);
    return problem;
}

/* The result so far: of reals or wholes, and where the extreme stood. */
typedef struct {
    double real;
    int64_t whole, position, seen;
} reduced;

/* Whether a candidate takes the place of the extreme; a NaN does, and stays. */
static bool is_better(int32_t function, bool greater, bool less, bool equal, bool nan) {
    switch (function) {
        case RT_REDUCTION_FUNCTION_MAX:
        case RT_REDUCTION_FUNCTION_ARG_MAX: return greater || nan;
        case RT_REDUCTION_FUNCTION_ARG_MAX_LAST: return greater || equal || nan;
        case RT_REDUCTION_FUNCTION_ARG_MIN_LAST: return less || equal || nan;
        default: return less || nan;
    }
}

static void reals_reduce(int32_t function, reduced *so_far, const double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double v = values[i], best = so_far->real;
        if (function == RT_REDUCTION_FUNCTION_SUM || function == RT_REDUCTION_FUNCTION_MEAN) {
            so_far->real += v;
        } else if (function == RT_REDUCTION_FUNCTION_PROD) {
            so_far->real = so_far->seen + i == 0 ? v : best * v;
        } else if (so_far->seen + i == 0 ||
                   (best == best && is_better(function, v > best, v < best, v == best, v != v))) {
            so_far->real = v;
            so_far->position = so_far->seen + i;
        }
    }
    so_far->seen += count;
}

static void wholes_reduce(int32_t function, reduced *so_far, const int64_t *values, int64_t count, bool is_unsigned) {
    for (int64_t i = 0; i < count; i++) {
        int64_t v = values[i], best = so_far->whole;
        bool less = is_unsigned ? (uint64_t)v < (uint64_t)best : v < best;
        if (function == RT_REDUCTION_FUNCTION_SUM || function == RT_REDUCTION_FUNCTION_MEAN) {
            so_far->whole = (int64_t)((uint64_t)best + (uint64_t)v);
        } else if (function == RT_REDUCTION_FUNCTION_PROD) {
            so_far->whole = so_far->seen + i == 0 ? v : (int64_t)((uint64_t)best * (uint64_t)v);
        } else if (so_far->seen + i == 0 || is_better(function, !less && v != best, less, v == best, false)) {
            so_far->whole = v;
            so_far->position = so_far->seen + i;
        }
    }
    so_far->seen += count;
}

/* Adds a piece of a row of the innermost loop. */
static void piece_reduce(int32_t function, reduced *so_far, const rt_strided *x, int64_t at, int64_t step,
                         int64_t count) {
    rt_piece values;
    if (rt_element_is_real(x->type)) {
        rt_strided_reals(x, at, step, count, values.reals);
        reals_reduce(function, so_far, values.reals, count);
    } else {
        rt_strided_wholes(x, at, step, count, values.wholes);
        wholes_reduce(function, so_far, values.wholes, count, x->type == RT_ELEMENT_TYPE_U64);
    }
}

static void result_put(int32_t function, const reduced *result, const rt_strided *x, const rt_strided *y, int64_t at) {
    double real = result->real;
    bool is_real = rt_element_is_real(x->type), mean = function == RT_REDUCTION_FUNCTION_MEAN;
    if (function >= RT_REDUCTION_FUNCTION_ARG_MAX) {
        rt_strided_put_wholes(y, at, 1, 1, &result->position, false);
    } else if (!is_real && !mean) {
        rt_strided_put_wholes(y, at, 1, 1, &result->whole, x->type == RT_ELEMENT_TYPE_U64);
    } else {
        if (!is_real) real = (double)result->whole;
        if (mean) real /= (double)result->seen;
        rt_strided_put_reals(y, at, 1, 1, &real);
    }
}

static void reduction_row(const rt_cpu_call *call, const int64_t *outer, int64_t start, int64_t count,
                          uint32_t worker) {
    const int32_t *extents = rt_strided_extents(call);
    rt_strided x = rt_strided_tensor(call, X), y = rt_strided_tensor(call, 1);
    int64_t index[RT_LOOPS], length = extents[RT_LOOPS - 1];
    reduced result = {0, 0, 0, 0};
    (void)start, (void)count, (void)worker;
    int32_t function = rt_strided_reduction_args_of(call).function;
    index_begin(index, outer, RT_KEPT);
    do {
        int64_t at = rt_strided_at(&x, index, RT_LOOPS - 1), step = x.strides[RT_LOOPS - 1];
        for (int64_t i = 0; i < length; i += RT_PIECE) {
            int64_t piece = length - i < RT_PIECE ? length - i : RT_PIECE;
            piece_reduce(function, &result, &x, at + i * step, step, piece);
        }
    } while (index_step(index, extents, RT_KEPT, RT_LOOPS - 1));
    result_put(function, &result, &x, &y, rt_strided_at(&y, index, RT_KEPT));
}

static void reduction_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_strided_run(call, workers, RT_KEPT, 1, reduction_row);
}

/* --- strided_product: tensors that are all real or all whole --- */

static const char *product_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const char *problem = rt_strided_check(call, A, RT_LOOPS);
    if (problem == NULL) problem = rt_strided_check(call, B, RT_LOOPS);
    if (problem == NULL) problem = rt_strided_check(call, 2, RT_KEPT);
    needs->work = rt_strided_turns(rt_strided_extents(call), 0, RT_LOOPS);
    return problem;
}

/* Adds the products of a piece of both. */
static void piece_product(reduced *sum, const rt_strided *a, const rt_strided *b, int64_t at_a, int64_t at_b,
                          int64_t count) {
    rt_piece left, right;
    int64_t step_a = a->strides[RT_LOOPS - 1], step_b = b->strides[RT_LOOPS - 1];
    if (rt_element_is_real(a->type)) {
        rt_strided_reals(a, at_a, step_a, count, left.reals);
        rt_strided_reals(b, at_b, step_b, count, right.reals);
        for (int64_t i = 0; i < count; i++) sum->real += left.reals[i] * right.reals[i];
        return;
    }
    rt_strided_wholes(a, at_a, step_a, count, left.wholes);
    rt_strided_wholes(b, at_b, step_b, count, right.wholes);
    uint64_t whole = (uint64_t)sum->whole;
    for (int64_t i = 0; i < count; i++) whole += (uint64_t)left.wholes[i] * (uint64_t)right.wholes[i];
    sum->whole = (int64_t)whole;
}

static void product_row(const rt_cpu_call *call, const int64_t *outer, int64_t start, int64_t count, uint32_t worker) {
    const int32_t *extents = rt_strided_extents(call);
    rt_strided a = rt_strided_tensor(call, A), b = rt_strided_tensor(call, B), y = rt_strided_tensor(call, 2);
    int64_t index[RT_LOOPS], length = extents[RT_LOOPS - 1];
    reduced sum = {0, 0, 0, 0};
    (void)start, (void)count, (void)worker;
    index_begin(index, outer, RT_KEPT);
    do {
        int64_t at_a = rt_strided_at(&a, index, RT_LOOPS - 1), at_b = rt_strided_at(&b, index, RT_LOOPS - 1);
        for (int64_t i = 0; i < length; i += RT_PIECE) {
            piece_product(&sum, &a, &b, at_a + i * a.strides[RT_LOOPS - 1], at_b + i * b.strides[RT_LOOPS - 1],
                          length - i < RT_PIECE ? length - i : RT_PIECE);
        }
    } while (index_step(index, extents, RT_KEPT, RT_LOOPS - 1));
    int64_t at = rt_strided_at(&y, index, RT_KEPT);
    if (rt_element_is_real(a.type)) {
        rt_strided_put_reals(&y, at, 1, 1, &sum.real);
    } else {
        rt_strided_put_wholes(&y, at, 1, 1, &sum.whole, false);
    }
}

static void product_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_strided_run(call, workers, RT_KEPT, 1, product_row);
}

/* --- cumulation: along the last loop; `exclusive`: the element itself is left out --- */

static const char *cumulation_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const char *problem = rt_strided_check(call, X, RT_LOOPS);
    if (problem == NULL) problem = rt_strided_check(call, 1, RT_LOOPS);
    needs->work = rt_strided_turns(rt_strided_extents(call), 0, RT_LOOPS);
    return problem;
}

static void cumulation_row(const rt_cpu_call *call, const int64_t *index, int64_t start, int64_t count,
                           uint32_t worker) {
    rt_strided x = rt_strided_tensor(call, X), y = rt_strided_tensor(call, 1);
    int64_t from = rt_strided_at(&x, index, RT_LOOPS), to = rt_strided_at(&y, index, RT_LOOPS);
    rt_cumulation_args args = rt_cumulation_args_of(call);
    bool product = args.function == RT_CUMULATION_FUNCTION_PROD, real = rt_element_is_real(x.type);
    double total = product, v = 0;
    uint64_t whole_total = product;
    int64_t w = 0;
    (void)start, (void)worker;
    for (int64_t i = 0; i < count; i++, from += x.strides[RT_LOOPS - 1], to += y.strides[RT_LOOPS - 1]) {
        double before = total;
        int64_t whole_before = (int64_t)whole_total;
        if (real) {
            rt_strided_reals(&x, from, 1, 1, &v);
            total = product ? total * v : total + v;
            rt_strided_put_reals(&y, to, 1, 1, args.exclusive ? &before : &total);
            continue;
        }
        rt_strided_wholes(&x, from, 1, 1, &w);
        whole_total = product ? whole_total * (uint64_t)w : whole_total + (uint64_t)w;
        int64_t after = (int64_t)whole_total;
        rt_strided_put_wholes(&y, to, 1, 1, args.exclusive ? &whole_before : &after, false);
    }
}

static void cumulation_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_strided_run(call, workers, RT_LOOPS, INT32_MAX, cumulation_row);
}

const rt_cpu_operator rt_cpu_strided_reduction = {
    RT_STRIDED_REDUCTION_ROW, .check = reduction_check, .run = reduction_run};
const rt_cpu_operator rt_cpu_strided_product = {RT_STRIDED_PRODUCT_ROW, .check = product_check, .run = product_run};
const rt_cpu_operator rt_cpu_cumulation = {RT_CUMULATION_ROW, .check = cumulation_check, .run = cumulation_run};
