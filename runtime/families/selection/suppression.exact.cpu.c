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

enum { LAST = RT_LOOPS - 1, BOX = 4, SHELVES = 256 };
enum {
    BOXES = RT_SUPPRESSION_BOXES,
    SCORES = RT_SUPPRESSION_SCORES,
    LIMIT = RT_SUPPRESSION_LIMIT,
    LEAST = RT_SUPPRESSION_LEAST,
    Y = RT_SUPPRESSION_Y
};

/* A box between its corners, and the next one on its shelf. */
typedef struct {
    double low[2], high[2], area;
    int64_t next;
} box;

/* The kept boxes by their centre along one axis: what a box overlaps has its own within `reach` of it. -1: no box. */
typedef struct {
    int axis;
    double start, per_unit, reach;
    int64_t first[SHELVES];
} shelves;

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
    if (a->low[0] >= b->high[0] || b->low[0] >= a->high[0] || a->low[1] >= b->high[1] || b->low[1] >= a->high[1]) {
        return false; /* most pairs */
    }
    double height = fmin(a->high[0], b->high[0]) - fmax(a->low[0], b->low[0]);
    double width = fmin(a->high[1], b->high[1]) - fmax(a->low[1], b->low[1]);
    if (!(height > 0 && width > 0)) return false;
    return height * width / (a->area + b->area - height * width) > limit;
}

/* The shelf of a place; the first one of NaN. */
static int64_t shelf_of(const shelves *all, double place) {
    double shelf = (place - all->start) * all->per_unit;
    if (!(shelf > 0)) return 0;
    return shelf < SHELVES - 1 ? (int64_t)shelf : SHELVES - 1;
}

static bool is_suppressed(const shelves *all, const box *candidate, const box *kept, double limit) {
    int64_t last = shelf_of(all, candidate->high[all->axis] + all->reach);
    for (int64_t shelf = shelf_of(all, candidate->low[all->axis] - all->reach); shelf <= last; shelf++) {
        for (int64_t i = all->first[shelf]; i >= 0; i = kept[i].next) {
            if (boxes_overlap(candidate, &kept[i], limit)) return true;
        }
    }
    return false;
}

static void box_keep(shelves *all, box *kept, int64_t number) {
    double centre = (kept[number].low[all->axis] + kept[number].high[all->axis]) / 2;
    int64_t *first = &all->first[shelf_of(all, centre)];
    kept[number].next = *first;
    *first = number;
}

/* Empty shelves along the axis on which boxes lie wider apart than they are large. */
static void shelves_start(shelves *all, const rt_strided *boxes, int64_t from, bool centred, const rt_item *items,
                          int64_t count) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY}, size[2] = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        box each = box_load(boxes, from + items[i].position * BOX, centred);
        for (int axis = 0; axis < 2; axis++) {
            low[axis] = fmin(low[axis], each.low[axis]);
            high[axis] = fmax(high[axis], each.high[axis]);
            size[axis] = fmax(size[axis], each.high[axis] - each.low[axis]);
        }
    }
    all->axis = (high[1] - low[1]) * size[0] > (high[0] - low[0]) * size[1];
    all->start = low[all->axis];
    all->per_unit = SHELVES / (high[all->axis] - all->start);
    all->reach = size[all->axis]; /* half of it, and room for rounding */
    for (int i = 0; i < SHELVES; i++) all->first[i] = -1;
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
    shelves all;
    double limit;
    rt_strided_reals(&limits, rt_strided_at(&limits, index, LAST), 1, 1, &limit);
    int64_t count = candidates_find(call, index, items);
    rt_items_sort(items, count, true, true, false);
    shelves_start(&all, &boxes, from, args.centred != 0, items, count);
    for (int64_t i = 0; i < count && found < wanted; i++) {
        kept[found] = box_load(&boxes, from + items[i].position * BOX, args.centred != 0);
        if (is_suppressed(&all, &kept[found], kept, limit)) continue;
        box_keep(&all, kept, found);
        rt_strided_put_wholes(&y, to + found++ * y.strides[LAST], 1, 1, &items[i].position, false);
    }
    for (; found < wanted; found++) rt_strided_put_wholes(&y, to + found * y.strides[LAST], 1, 1, &none, false);
}

static void suppression_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_items_run(call, suppression_row, workers);
}

const rt_cpu_operator rt_cpu_suppression = {RT_SUPPRESSION_ROW, .check = suppression_check, .run = suppression_run};
