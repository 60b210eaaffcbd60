/* suppression: the boxes of each row that overlap no better one of it by more than a limit, best first.
 *
 * `count` boxes of a row; `centred`: a box is its centre and size, else two opposite corners. The last loop is that of
 * the result, in which the others are rows. Boxes whose score does not exceed the least one are left out. Tensors boxes
 * (four numbers each), scores, the limit of the overlap (intersection over union), the least score, and y: the boxes'
 * numbers, -1 behind the last.
 */
#include <math.h>
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_items.h"
#include "../../native/src/cpu/cpu_strided.h"

enum { LAST = RT_LOOPS - 1, BOX = 4 };
enum {
    BOXES = RT_SUPPRESSION_BOXES,
    SCORES = RT_SUPPRESSION_SCORES,
    LIMIT = RT_SUPPRESSION_LIMIT,
    LEAST = RT_SUPPRESSION_LEAST,
    Y = RT_SUPPRESSION_Y
};

/* A box between its corners. */
typedef struct {
    double low[2], high[2], area;
} box;

static const char *suppression_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const int32_t *extents = rt_strided_extents(call), count = rt_suppression_args_of(call).count;
    const int32_t more[] = {count, BOX}, box_steps[] = {BOX, 1}, score_steps[] = {1};
    for (uint32_t i = 0; i < Y; i++) {
        const char *problem = rt_strided_check(call, i, LAST);
        if (problem != NULL) return problem;
        if (!rt_element_is_real(rt_strided_type(call, i))) return "its boxes or scores are no real numbers";
    }
    uint64_t rows = rt_strided_turns(extents, 0, LAST);
    needs->work = rt_product(rt_product(rows, (uint64_t)count), rt_sum(32, (uint64_t)extents[LAST]));
    needs->scratch_bytes = rt_sum(rt_product((uint64_t)count, 2 * sizeof(rt_item)),
                                  rt_product((uint64_t)extents[LAST], sizeof(box)));
    if (count < extents[LAST]) return "more boxes than a row has";
    const char *problem = rt_strided_check_more(call, BOXES, more, box_steps, 2);
    if (problem == NULL) problem = rt_strided_check_more(call, SCORES, more, score_steps, 1);
    return problem ? problem : rt_strided_check(call, Y, RT_LOOPS);
}

static box box_load(const rt_strided *boxes, int64_t at, bool centred) {
    double v[BOX];
    box loaded;
    rt_strided_reals(boxes, at, 1, BOX, v);
    for (int i = 0; i < 2; i++) {
        double first = centred ? v[i] - v[i + 2] / 2 : v[i], second = centred ? v[i] + v[i + 2] / 2 : v[i + 2];
        loaded.low[i] = fmin(first, second);
        loaded.high[i] = fmax(first, second);
    }
    loaded.area = (loaded.high[0] - loaded.low[0]) * (loaded.high[1] - loaded.low[1]);
    return loaded;
}

/* Whether two boxes overlap by more than a limit; false where either has no area. */
static bool boxes_overlap(const box *a, const box *b, double limit) {
    double height = fmin(a->high[0], b->high[0]) - fmax(a->low[0], b->low[0]);
    double width = fmin(a->high[1], b->high[1]) - fmax(a->low[1], b->low[1]);
    if (!(height > 0 && width > 0)) return false;
    return height * width / (a->area + b->area - height * width) > limit;
}

static bool is_suppressed(const box *candidate, const box *kept, int64_t count, double limit) {
    for (int64_t i = 0; i < count; i++) {
        if (boxes_overlap(candidate, &kept[i], limit)) return true;
    }
    return false;
}

/* Puts the boxes of a row whose score exceeds the least one into `items`; returns how many there are. */
static int64_t candidates_find(const rt_cpu_call *call, const int64_t *index, rt_item *items) {
    rt_strided scores = rt_strided_tensor(call, SCORES), least = rt_strided_tensor(call, LEAST);
    int64_t at = rt_strided_at(&scores, index, LAST), count = 0;
    double bound;
    rt_strided_reals(&least, rt_strided_at(&least, index, LAST), 1, 1, &bound);
    for (int64_t i = 0; i < rt_suppression_args_of(call).count; i++) {
        rt_item item = {0, 0, i};
        rt_strided_reals(&scores, at + i, 1, 1, &item.real);
        if (item.real > bound) items[count++] = item;
    }
    return count;
}

static void suppression_row(const rt_cpu_call *call, const int64_t *index, rt_item *items) {
    rt_suppression_args args = rt_suppression_args_of(call);
    const int64_t wanted = rt_strided_extents(call)[LAST], none = -1;
    rt_strided boxes = rt_strided_tensor(call, BOXES), limits = rt_strided_tensor(call, LIMIT),
               y = rt_strided_tensor(call, Y);
    int64_t from = rt_strided_at(&boxes, index, LAST), to = rt_strided_at(&y, index, LAST), found = 0;
    box *kept = (box *)(void *)(items + 2 * (int64_t)args.count);
    double limit;
    rt_strided_reals(&limits, rt_strided_at(&limits, index, LAST), 1, 1, &limit);
    int64_t count = candidates_find(call, index, items);
    rt_items_sort(items, count, true, true, false);
    for (int64_t i = 0; i < count && found < wanted; i++) {
        kept[found] = box_load(&boxes, from + items[i].position * BOX, args.centred != 0);
        if (is_suppressed(&kept[found], kept, found, limit)) continue;
        rt_strided_put_wholes(&y, to + found++ * y.strides[LAST], 1, 1, &items[i].position, false);
    }
    for (; found < wanted; found++) rt_strided_put_wholes(&y, to + found * y.strides[LAST], 1, 1, &none, false);
}

static void suppression_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_items_run(call, suppression_row, workers);
}

const rt_cpu_operator rt_cpu_suppression = {RT_SUPPRESSION_ROW, .check = suppression_check, .run = suppression_run};
