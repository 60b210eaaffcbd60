/* sorting: the first elements of each sorted row of the last loop, or where they stood.
 *
 * `length` elements of a row; the last loop is that of the result. Equal elements keep their order, and a NaN counts as
 * the greatest.
 */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_items.h"
#include "../../native/src/cpu/cpu_strided.h"

enum { X = RT_SORTING_X, Y = RT_SORTING_Y, LAST = RT_LOOPS - 1 };

/* What a row has beyond the result's elements is a loop of its own for the check. */
static const char *sorting_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_sorting_args args = rt_sorting_args_of(call);
    const int32_t *extents = rt_strided_extents(call);
    const char *problem = rt_strided_check(call, Y, RT_LOOPS);
    if (problem != NULL) return problem;
    if (args.length < extents[LAST]) return "more elements than a row has";
    const int32_t more = args.length - extents[LAST] + 1, step = rt_strided_tensor(call, X).strides[LAST];
    uint64_t rows = rt_strided_turns(extents, 0, LAST);
    needs->work = rt_product(rt_product(rows, (uint64_t)args.length), 32);
    needs->scratch_bytes = rt_product((uint64_t)args.length, 2 * sizeof(rt_item));
    return rt_strided_check_more(call, X, &more, &step, 1);
}

static void sorting_row(const rt_cpu_call *call, const int64_t *index, rt_item *items) {
    rt_sorting_args args = rt_sorting_args_of(call);
    int64_t count = args.length, wanted = rt_strided_extents(call)[LAST];
    rt_strided x = rt_strided_tensor(call, X), y = rt_strided_tensor(call, Y);
    int64_t from = rt_strided_at(&x, index, LAST), to = rt_strided_at(&y, index, LAST);
    bool real = rt_element_is_real(x.type), is_unsigned = x.type == RT_ELEMENT_TYPE_U64;
    for (int64_t i = 0; i < count; i++) {
        items[i] = (rt_item){0, 0, i};
        if (real) {
            rt_strided_reals(&x, from + i * x.strides[LAST], 1, 1, &items[i].real);
        } else {
            rt_strided_wholes(&x, from + i * x.strides[LAST], 1, 1, &items[i].whole);
        }
    }
    rt_items_sort(items, count, args.largest != 0, real, is_unsigned);
    for (int64_t i = 0; i < wanted; i++) {
        int64_t at = to + i * y.strides[LAST];
        if (args.positions != 0) {
            rt_strided_put_wholes(&y, at, 1, 1, &items[i].position, false);
        } else if (real) {
            rt_strided_put_reals(&y, at, 1, 1, &items[i].real);
        } else {
            rt_strided_put_wholes(&y, at, 1, 1, &items[i].whole, is_unsigned);
        }
    }
}

static void sorting_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_items_run(call, sorting_row, workers);
}

const rt_cpu_operator rt_cpu_sorting = {RT_SORTING_ROW, .check = sorting_check, .run = sorting_run};
