#include "cpu_items.h"

#include <stddef.h>
#include <string.h>

/* Whether `a` comes strictly before `b` in ascending order. */
static bool comes_before(const rt_item *a, const rt_item *b, bool real, bool is_unsigned) {
    if (real) return a->real < b->real || (a->real == a->real && b->real != b->real);
    return is_unsigned ? (uint64_t)a->whole < (uint64_t)b->whole : a->whole < b->whole;
}

bool rt_item_is_first(const rt_item *a, const rt_item *b, bool largest, bool real, bool is_unsigned) {
    return largest ? comes_before(b, a, real, is_unsigned) : comes_before(a, b, real, is_unsigned);
}

/* Merge sort. */
void rt_items_sort(rt_item *items, int64_t count, bool largest, bool real, bool is_unsigned) {
    rt_item *from = items, *to = items + count;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t end = middle + width < count ? middle + width : count;
            for (int64_t i = start, j = middle, k = start; k < end; k++) {
                const rt_item *first = &from[largest ? i : j], *second = &from[largest ? j : i];
                bool right = i == middle || (j < end && comes_before(first, second, real, is_unsigned));
                to[k] = from[right ? j++ : i++];
            }
        }
        rt_item *other = from;
        from = to;
        to = other;
    }
    if (from != items) memcpy(items, from, (size_t)count * sizeof *items);
}

/* What a worker needs to compute rows. */
typedef struct {
    const rt_cpu_call *call;
    const int32_t *extents;
    rt_items_row *row;
    const rt_workers *workers;
} rows_job;

static void rows_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rows_job *job = context;
    int64_t index[RT_LOOPS];
    rt_strided_index(job->extents, RT_LOOPS - 1, turn, index);
    job->row(job->call, index, rt_workers_scratch(job->workers, worker));
}

void rt_items_run(const rt_cpu_call *call, rt_items_row *row, rt_workers *workers) {
    rows_job job = {call, rt_strided_extents(call), row, workers};
    rt_workers_run(workers, (uint32_t)rt_strided_turns(job.extents, 0, RT_LOOPS - 1), rows_turn, &job);
}
