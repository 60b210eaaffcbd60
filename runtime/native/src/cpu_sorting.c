/* sorting: the first elements of each sorted row of the last loop, or where they stood.
 *
 * Head: elements of a row, whether the largest come first, whether positions are wanted; the last loop is that of the
 * result. Equal elements keep their order, and a NaN counts as the greatest. Tensors x, y.
 */
#include <stddef.h>
#include <string.h>

#include "arithmetic.h"
#include "cpu_strided.h"

enum { HEAD = 3, LAST = RT_LOOPS - 1 };

/* An element with its place; reals that are no NaN are ordered by `real`, wholes by `whole`. */
typedef struct {
    double real;
    int64_t whole, position;
} item;

/* What a row has beyond the result's elements is a loop of its own for the check. */
static const char *sorting_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const int32_t *extents = rt_strided_extents(call, HEAD);
    const char *problem = rt_strided_check(call, HEAD, 1, RT_LOOPS);
    if (problem != NULL) return problem;
    if (call->ints[0] < extents[LAST]) return "more elements than a row has";
    const int32_t more = call->ints[0] - extents[LAST] + 1, step = rt_strided_tensor(call, HEAD, 0).strides[LAST];
    uint64_t rows = rt_strided_turns(extents, 0, LAST);
    needs->work = rt_product(rt_product(rows, (uint64_t)call->ints[0]), 32);
    needs->scratch_bytes = rt_product((uint64_t)call->ints[0], 2 * sizeof(item));
    return rt_strided_check_more(call, HEAD, 0, &more, &step, 1);
}

/* Whether `a` comes strictly before `b` in ascending order. */
static bool comes_before(const item *a, const item *b, bool real, bool is_unsigned) {
    if (real) return a->real < b->real || (a->real == a->real && b->real != b->real);
    return is_unsigned ? (uint64_t)a->whole < (uint64_t)b->whole : a->whole < b->whole;
}

/* Merge sort, which keeps the order of equals, by way of as many items behind the row. */
static void items_sort(item *items, int64_t count, bool largest, bool real, bool is_unsigned) {
    item *from = items, *to = items + count;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t end = middle + width < count ? middle + width : count;
            for (int64_t i = start, j = middle, k = start; k < end; k++) {
                const item *first = &from[largest ? i : j], *second = &from[largest ? j : i];
                bool right = i == middle || (j < end && comes_before(first, second, real, is_unsigned));
                to[k] = from[right ? j++ : i++];
            }
        }
        item *other = from;
        from = to;
        to = other;
    }
    if (from != items) memcpy(items, from, (size_t)count * sizeof *items);
}

static void sorting_row(const rt_cpu_call *call, const int64_t *index, item *items) {
    int64_t count = call->ints[0], wanted = rt_strided_extents(call, HEAD)[LAST];
    rt_strided x = rt_strided_tensor(call, HEAD, 0), y = rt_strided_tensor(call, HEAD, 1);
    int64_t from = rt_strided_at(&x, index, LAST), to = rt_strided_at(&y, index, LAST);
    bool real = rt_element_is_real(x.type), is_unsigned = x.type == RT_ELEMENT_TYPE_U64;
    for (int64_t i = 0; i < count; i++) {
        items[i] = (item){0, 0, i};
        if (real) {
            rt_strided_reals(&x, from + i * x.strides[LAST], 1, 1, &items[i].real);
        } else {
            rt_strided_wholes(&x, from + i * x.strides[LAST], 1, 1, &items[i].whole);
        }
    }
    items_sort(items, count, call->ints[1] != 0, real, is_unsigned);
    for (int64_t i = 0; i < wanted; i++) {
        int64_t at = to + i * y.strides[LAST];
        if (call->ints[2] != 0) {
            rt_strided_put_wholes(&y, at, 1, 1, &items[i].position, false);
        } else if (real) {
            rt_strided_put_reals(&y, at, 1, 1, &items[i].real);
        } else {
            rt_strided_put_wholes(&y, at, 1, 1, &items[i].whole, is_unsigned);
        }
    }
}

/* What a worker needs to sort rows. */
typedef struct {
    const rt_cpu_call *call;
    const rt_workers *workers;
} sorter;

static void sorting_turn(const void *context, uint32_t turn, uint32_t worker) {
    const sorter *all = context;
    const int32_t *extents = rt_strided_extents(all->call, HEAD);
    int64_t index[RT_LOOPS];
    uint64_t rest = turn;
    for (uint32_t axis = LAST; axis-- > 0;) {
        index[axis] = (int64_t)(rest % (uint64_t)extents[axis]);
        rest /= (uint64_t)extents[axis];
    }
    sorting_row(all->call, index, rt_workers_scratch(all->workers, worker));
}

static void sorting_run(const rt_cpu_call *call, rt_workers *workers) {
    sorter all = {call, workers};
    rt_workers_run(workers, (uint32_t)rt_strided_turns(rt_strided_extents(call, HEAD), 0, LAST), sorting_turn, &all);
}

const rt_cpu_operator rt_cpu_sorting = {
    "sorting", "ee", HEAD + RT_LOOPS + 2 * RT_VIEW_INTS, 0, sorting_check, sorting_run, NULL};
