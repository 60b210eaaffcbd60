/* indexed_read, indexed_write: elements whose place a tensor of indices tells at run time.
 *
 * An index has some components, `component_stride` elements apart; each counts an axis of a size, the limit, and a
 * stride. A negative index counts from the end of its axis. One that is out of range sets the call's fault: nothing is
 * read or written there.
 */
#include <stddef.h>
#include <string.h>

#include "../../native/src/cpu/cpu_strided.h"

enum { LAST = RT_LOOPS - 1 };

/* The places that an operator's indices tell are those of an indexed_read. */
typedef rt_indexed_read_args places;

static places write_places(const rt_cpu_call *call) {
    rt_indexed_write_args args = rt_indexed_write_args_of(call);
    places at = {.components = args.components, .component_stride = args.component_stride};
    memcpy(at.limit, args.limit, sizeof at.limit);
    memcpy(at.limit_stride, args.limit_stride, sizeof at.limit_stride);
    return at;
}

/* The indexed tensor, the indices, and the other one. */
static const char *places_check(const rt_cpu_call *call, places at, uint32_t indexed, uint32_t indices, uint32_t other) {
    if (rt_element_is_real(rt_strided_type(call, indices))) return "its indices are no integers";
    if (rt_element_is_real(rt_strided_type(call, indexed)) != rt_element_is_real(rt_strided_type(call, other))) {
        return "its tensors are of two kinds";
    }
    const char *problem =
        rt_strided_check_more(call, indexed, at.limit, at.limit_stride, (uint32_t)at.components);
    if (problem == NULL) {
        problem = rt_strided_check_more(call, indices, &at.components, &at.component_stride, 1);
    }
    return problem ? problem : rt_strided_check(call, other, RT_LOOPS);
}

/* The indexed element; false, and a fault, where an index is out of range. */
static bool place_find(const rt_cpu_call *call, const places *all, const rt_strided *indices, int64_t index_at,
                       int64_t *at) {
    for (int32_t c = 0; c < all->components; c++) {
        int64_t chosen, limit = all->limit[c];
        rt_strided_wholes(indices, index_at + (int64_t)c * all->component_stride, 1, 1, &chosen);
        if (chosen < -limit || chosen >= limit) {
            *call->fault = "an index is out of range";
            return false;
        }
        *at += (chosen < 0 ? chosen + limit : chosen) * all->limit_stride[c];
    }
    return true;
}

/* --- indexed_read: x at the indices k --- */

static const char *read_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    needs->work = rt_strided_turns(rt_strided_extents(call), 0, RT_LOOPS);
    return places_check(call, rt_indexed_read_args_of(call), RT_INDEXED_READ_X, RT_INDEXED_READ_K, RT_INDEXED_READ_Y);
}

/* Copies at most RT_PIECE elements of a row; both tensors are of one kind. */
static void elements_copy(const rt_strided *x, int64_t from, const rt_strided *y, int64_t to, int64_t count) {
    int64_t x_step = x->strides[LAST], y_step = y->strides[LAST];
    rt_piece piece;
    if (rt_element_is_real(x->type)) {
        rt_strided_reals(x, from, x_step, count, piece.reals);
        rt_strided_put_reals(y, to, y_step, count, piece.reals);
    } else {
        rt_strided_wholes(x, from, x_step, count, piece.wholes);
        rt_strided_put_wholes(y, to, y_step, count, piece.wholes, x->type == RT_ELEMENT_TYPE_U64);
    }
}

static void read_row(const rt_cpu_call *call, const int64_t *index, int64_t start, int64_t count, uint32_t worker) {
    rt_strided x = rt_strided_tensor(call, RT_INDEXED_READ_X), k = rt_strided_tensor(call, RT_INDEXED_READ_K),
               y = rt_strided_tensor(call, RT_INDEXED_READ_Y);
    places all = rt_indexed_read_args_of(call);
    int64_t at = rt_strided_at(&x, index, RT_LOOPS), index_at = rt_strided_at(&k, index, RT_LOOPS),
            to = rt_strided_at(&y, index, RT_LOOPS);
    int64_t run = k.strides[LAST] == 0 ? count : 1; /* elements that share an index */
    (void)start, (void)worker;
    for (int64_t i = 0; i < count; i += run) {
        int64_t from = at + i * x.strides[LAST];
        if (!place_find(call, &all, &k, index_at + i * k.strides[LAST], &from)) return;
        elements_copy(&x, from, &y, to + i * y.strides[LAST], run);
    }
}

static void read_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_strided_run(call, workers, RT_LOOPS, RT_PIECE, read_row);
}

/* --- indexed_write: the updates u go into y at the indices k, in order --- */

static const char *write_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    needs->work = rt_strided_turns(rt_strided_extents(call), 0, RT_LOOPS);
    return places_check(call, write_places(call), RT_INDEXED_WRITE_Y, RT_INDEXED_WRITE_K, RT_INDEXED_WRITE_U);
}

static double reals_update(int32_t function, double v, double w) {
    switch (function) {
        case RT_UPDATE_FUNCTION_ADD: return v + w;
        case RT_UPDATE_FUNCTION_MUL: return v * w;
        case RT_UPDATE_FUNCTION_MAX: return v > w || v != v ? v : w;
        case RT_UPDATE_FUNCTION_MIN: return v < w || v != v ? v : w;
        default: return w;
    }
}

static int64_t wholes_update(int32_t function, int64_t v, int64_t w, bool is_unsigned) {
    bool less = is_unsigned ? (uint64_t)v < (uint64_t)w : v < w;
    switch (function) {
        case RT_UPDATE_FUNCTION_ADD: return (int64_t)((uint64_t)v + (uint64_t)w);
        case RT_UPDATE_FUNCTION_MUL: return (int64_t)((uint64_t)v * (uint64_t)w);
        case RT_UPDATE_FUNCTION_MAX: return less ? w : v;
        case RT_UPDATE_FUNCTION_MIN: return less ? v : w;
        default: return w;
    }
}

/* Joins one element with an update. */
static void element_update(int32_t function, const rt_strided *u, int64_t from, const rt_strided *y, int64_t to) {
    double real, new_real;
    int64_t whole, new_whole;
    bool is_unsigned = y->type == RT_ELEMENT_TYPE_U64;
    if (rt_element_is_real(y->type)) {
        rt_strided_reals(y, to, 1, 1, &real);
        rt_strided_reals(u, from, 1, 1, &new_real);
        real = reals_update(function, real, new_real);
        rt_strided_put_reals(y, to, 1, 1, &real);
    } else {
        rt_strided_wholes(y, to, 1, 1, &whole);
        rt_strided_wholes(u, from, 1, 1, &new_whole);
        whole = wholes_update(function, whole, new_whole, is_unsigned);
        rt_strided_put_wholes(y, to, 1, 1, &whole, is_unsigned);
    }
}

static void write_row(const rt_cpu_call *call, const int64_t *index, int64_t start, int64_t count, uint32_t worker) {
    rt_strided k = rt_strided_tensor(call, RT_INDEXED_WRITE_K), u = rt_strided_tensor(call, RT_INDEXED_WRITE_U),
               y = rt_strided_tensor(call, RT_INDEXED_WRITE_Y);
    places all = write_places(call);
    int32_t function = rt_indexed_write_args_of(call).function;
    int64_t index_at = rt_strided_at(&k, index, RT_LOOPS), from = rt_strided_at(&u, index, RT_LOOPS),
            at = rt_strided_at(&y, index, RT_LOOPS);
    (void)start, (void)worker;
    for (int64_t i = 0; i < count; i++) {
        int64_t to = at + i * y.strides[LAST];
        if (!place_find(call, &all, &k, index_at + i * k.strides[LAST], &to)) return;
        element_update(function, &u, from + i * u.strides[LAST], &y, to);
    }
}

/* By one thread: updates may meet. */
static void write_run(const rt_cpu_call *call, rt_workers *workers) {
    (void)workers;
    rt_strided_run(call, NULL, RT_LOOPS, RT_PIECE, write_row);
}

const rt_cpu_operator rt_cpu_indexed_read = {RT_INDEXED_READ_ROW, .check = read_check, .run = read_run};
const rt_cpu_operator rt_cpu_indexed_write = {RT_INDEXED_WRITE_ROW, .check = write_check, .run = write_run};
