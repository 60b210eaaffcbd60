/* indexed_read, indexed_write: elements whose place a tensor of indices tells at run time.
 *
 * Head: components of an index (up to RT_COMPONENTS), elements between two of them, then for each component the size of
 * the axis that it counts and that axis' stride; indexed_write has the function (RT_UPDATE_FUNCTION_...) before them.
 * A negative index counts from the end of its axis. One that is out of range sets the call's fault: nothing is read or
 * written there.
 */
#include <stddef.h>

#include "cpu_strided.h"

enum { RT_COMPONENTS = 6, HEAD = 2 + 2 * RT_COMPONENTS, WRITE_HEAD = HEAD + 1, LAST = RT_LOOPS - 1 };

/* The head, behind the function. */
typedef struct {
    int32_t components, component_stride;
    const int32_t *limits, *limit_strides;
} places;

static places places_of(const int32_t *head) {
    return (places){head[0], head[1], head + 2, head + 2 + RT_COMPONENTS};
}

/* The indexed tensor, the indices, and the other one; `ints` begins with the components. */
static const char *places_check(const rt_cpu_call *call, uint32_t head, const int32_t *ints, uint32_t indexed,
                                uint32_t indices, uint32_t other) {
    places at = places_of(ints);
    if (at.components < 1 || at.components > RT_COMPONENTS) return "an index of no or too many components";
    if (rt_element_is_real(rt_strided_type(call, head, indices))) return "its indices are no integers";
    if (rt_element_is_real(rt_strided_type(call, head, indexed)) !=
        rt_element_is_real(rt_strided_type(call, head, other))) {
        return "its tensors are of two kinds";
    }
    uint32_t components = (uint32_t)at.components;
    const char *problem = rt_strided_check_more(call, head, indexed, at.limits, at.limit_strides, components);
    if (problem == NULL) {
        problem = rt_strided_check_more(call, head, indices, &at.components, &at.component_stride, 1);
    }
    return problem ? problem : rt_strided_check(call, head, other, RT_LOOPS);
}

/* The indexed element; false, and a fault, where an index is out of range. */
static bool place_find(const rt_cpu_call *call, const places *all, const rt_strided *indices, int64_t index_at,
                       int64_t *at) {
    for (int32_t c = 0; c < all->components; c++) {
        int64_t chosen, limit = all->limits[c];
        rt_strided_wholes(indices, index_at + (int64_t)c * all->component_stride, 1, 1, &chosen);
        if (chosen < -limit || chosen >= limit) {
            *call->fault = "an index is out of range";
            return false;
        }
        *at += (chosen < 0 ? chosen + limit : chosen) * all->limit_strides[c];
    }
    return true;
}

/* --- indexed_read: tensors x, indices, y --- */

static const char *read_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    needs->work = rt_strided_turns(rt_strided_extents(call, HEAD), 0, RT_LOOPS);
    return places_check(call, HEAD, call->ints, 0, 1, 2);
}

/* Copies one element; both are of one kind. */
static void element_copy(const rt_strided *x, int64_t from, const rt_strided *y, int64_t to) {
    double real;
    int64_t whole;
    if (rt_element_is_real(x->type)) {
        rt_strided_reals(x, from, 1, 1, &real);
        rt_strided_put_reals(y, to, 1, 1, &real);
    } else {
        rt_strided_wholes(x, from, 1, 1, &whole);
        rt_strided_put_wholes(y, to, 1, 1, &whole, x->type == RT_ELEMENT_TYPE_U64);
    }
}

static void read_row(const rt_cpu_call *call, const int64_t *index, int64_t start, int64_t count, uint32_t worker) {
    rt_strided x = rt_strided_tensor(call, HEAD, 0), k = rt_strided_tensor(call, HEAD, 1),
               y = rt_strided_tensor(call, HEAD, 2);
    places all = places_of(call->ints);
    int64_t at = rt_strided_at(&x, index, RT_LOOPS), index_at = rt_strided_at(&k, index, RT_LOOPS),
            to = rt_strided_at(&y, index, RT_LOOPS);
    (void)start, (void)worker;
    for (int64_t i = 0; i < count; i++) {
        int64_t from = at + i * x.strides[LAST];
        if (!place_find(call, &all, &k, index_at + i * k.strides[LAST], &from)) return;
        element_copy(&x, from, &y, to + i * y.strides[LAST]);
    }
}

static void read_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_strided_run(call, workers, HEAD, RT_LOOPS, RT_PIECE, read_row);
}

/* --- indexed_write: tensors indices, updates, y, into which they go in order --- */

static const char *write_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    needs->work = rt_strided_turns(rt_strided_extents(call, WRITE_HEAD), 0, RT_LOOPS);
    if (call->ints[0] < 0 || call->ints[0] >= RT_UPDATE_FUNCTION_COUNT) return "there is no such function";
    return places_check(call, WRITE_HEAD, call->ints + 1, 2, 0, 1);
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
    rt_strided k = rt_strided_tensor(call, WRITE_HEAD, 0), u = rt_strided_tensor(call, WRITE_HEAD, 1),
               y = rt_strided_tensor(call, WRITE_HEAD, 2);
    places all = places_of(call->ints + 1);
    int64_t index_at = rt_strided_at(&k, index, RT_LOOPS), from = rt_strided_at(&u, index, RT_LOOPS),
            at = rt_strided_at(&y, index, RT_LOOPS);
    (void)start, (void)worker;
    for (int64_t i = 0; i < count; i++) {
        int64_t to = at + i * y.strides[LAST];
        if (!place_find(call, &all, &k, index_at + i * k.strides[LAST], &to)) return;
        element_update(call->ints[0], &u, from + i * u.strides[LAST], &y, to);
    }
}

/* By one thread: updates may meet. */
static void write_run(const rt_cpu_call *call, rt_workers *workers) {
    (void)workers;
    rt_strided_run(call, NULL, WRITE_HEAD, RT_LOOPS, RT_PIECE, write_row);
}

const rt_cpu_operator rt_cpu_indexed_read = {
    "indexed_read", "eee", HEAD + RT_LOOPS + 3 * RT_VIEW_INTS, 0, read_check, read_run, NULL};
const rt_cpu_operator rt_cpu_indexed_write = {
    "indexed_write", "eee", WRITE_HEAD + RT_LOOPS + 3 * RT_VIEW_INTS, 0, write_check, write_run, NULL};
