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

/* What a row is sorted by, and the tensors, from its first element on. */
typedef struct {
    rt_strided x, y;
    int64_t from, to, count, wanted;
    bool largest, positions, real, is_unsigned;
} row;

/* Elements of one byte have few values: they are counted. */
static bool is_counted(uint32_t type) {
    return type == RT_ELEMENT_TYPE_BOOL || type == RT_ELEMENT_TYPE_U8 || type == RT_ELEMENT_TYPE_I8;
}

/* Items at a time, of which those wanted are kept: all, where half of them are. */
static int64_t room_of(int64_t count, int64_t wanted) {
    int64_t room = wanted < RT_PIECE ? 2 * RT_PIECE : 2 * wanted;
    return room < count ? room : count;
}

/* What a row has beyond the result's elements is a loop of its own for the check. */
static const char *sorting_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_sorting_args args = rt_sorting_args_of(call);
    const int32_t *extents = rt_strided_extents(call);
    const char *problem = rt_strided_check(call, Y, RT_LOOPS);
    if (problem != NULL) return problem;
    if (args.length < extents[LAST]) return "more elements than a row has";
    rt_strided x = rt_strided_tensor(call, X);
    const int32_t more = args.length - extents[LAST] + 1, step = x.strides[LAST];
    uint64_t rows = rt_strided_turns(extents, 0, LAST);
    uint64_t room = is_counted(x.type) ? 0 : (uint64_t)room_of(args.length, extents[LAST]);
    needs->work = rt_product(rt_product(rows, (uint64_t)args.length), 32);
    needs->scratch_bytes = rt_product(room, 2 * sizeof(rt_item));
    return rt_strided_check_more(call, X, &more, &step, 1);
}

/* Writes element number `rank` of the result. */
static void item_put(const row *r, int64_t rank, const rt_item *item) {
    int64_t at = r->to + rank * r->y.strides[LAST];
    if (r->positions) {
        rt_strided_put_wholes(&r->y, at, 1, 1, &item->position, false);
    } else if (r->real) {
        rt_strided_put_reals(&r->y, at, 1, 1, &item->real);
    } else {
        rt_strided_put_wholes(&r->y, at, 1, 1, &item->whole, r->is_unsigned);
    }
}

/* Loads the elements from number `first` on, as many as a piece holds; returns how many. */
static int64_t piece_load(const row *r, int64_t first, rt_piece *piece) {
    int64_t step = r->x.strides[LAST], rest = r->count - first, count = rest < RT_PIECE ? rest : RT_PIECE;
    if (r->real) {
        rt_strided_reals(&r->x, r->from + first * step, step, count, piece->reals);
    } else {
        rt_strided_wholes(&r->x, r->from + first * step, step, count, piece->wholes);
    }
    return count;
}

/* Elements of one byte: those of each value stand behind all that are sorted before it. */
static void bytes_sort(const row *r) {
    enum { LOWEST = -128, VALUES = 256 - LOWEST };
    int64_t next[VALUES + 1] = {0};
    rt_piece piece;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t first = 0, count; first < r->count; first += count) {
            count = piece_load(r, first, &piece);
            for (int64_t i = 0; i < count; i++) {
                int64_t value = piece.wholes[i] - LOWEST, key = r->largest ? VALUES - 1 - value : value;
                rt_item item = {0, piece.wholes[i], first + i};
                if (pass == 0) {
                    next[key + 1]++;
                } else if (next[key]++ < r->wanted) {
                    item_put(r, next[key] - 1, &item);
                }
            }
        }
        for (int value = 0; pass == 0 && value < VALUES; value++) next[value + 1] += next[value];
    }
}

/* Keeps the first of what is left whenever there is no more room; what is not before the last of them is passed over. */
static void items_sort(const row *r, rt_item *items) {
    int64_t room = room_of(r->count, r->wanted), kept = 0;
    bool is_full = false;
    rt_piece piece;
    for (int64_t first = 0, count; first < r->count; first += count) {
        count = piece_load(r, first, &piece);
        for (int64_t i = 0; i < count; i++) {
            rt_item item = {r->real ? piece.reals[i] : 0, r->real ? 0 : piece.wholes[i], first + i};
            if (kept == room) {
                rt_items_sort(items, kept, r->largest, r->real, r->is_unsigned);
                kept = r->wanted, is_full = true;
            }
            const rt_item *last = &items[r->wanted - 1];
            if (is_full && !rt_item_is_first(&item, last, r->largest, r->real, r->is_unsigned)) continue;
            items[kept++] = item;
        }
    }
    rt_items_sort(items, kept, r->largest, r->real, r->is_unsigned);
    for (int64_t i = 0; i < r->wanted; i++) item_put(r, i, &items[i]);
}

static void sorting_row(const rt_cpu_call *call, const int64_t *index, rt_item *items) {
    rt_sorting_args args = rt_sorting_args_of(call);
    row r = {.x = rt_strided_tensor(call, X),
             .y = rt_strided_tensor(call, Y),
             .count = args.length,
             .wanted = rt_strided_extents(call)[LAST],
             .largest = args.largest != 0,
             .positions = args.positions != 0};
    r.from = rt_strided_at(&r.x, index, LAST), r.to = rt_strided_at(&r.y, index, LAST);
    r.real = rt_element_is_real(r.x.type), r.is_unsigned = r.x.type == RT_ELEMENT_TYPE_U64;
    if (is_counted(r.x.type)) {
        bytes_sort(&r);
    } else {
        items_sort(&r, items);
    }
}

static void sorting_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_items_run(call, sorting_row, workers);
}

const rt_cpu_operator rt_cpu_sorting = {RT_SORTING_ROW, .check = sorting_check, .run = sorting_run};
