#include "cpu_nests.h"

#include <stddef.h>

#include "../system/arithmetic.h"

enum { NUMBERS_PER_TURN = 8192 };

/* Loops of up to six axes, cut into rows of the last axis and those into pieces. */
typedef struct {
    const rt_cpu_call *call;
    void (*piece)(const rt_cpu_call *call, const int64_t *index, int64_t count);
    const int32_t *extents;
    uint32_t rank;
    uint64_t rows, pieces; /* pieces of a row */
    uint64_t rows_per_turn;
    int64_t elements; /* of a piece */
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
        int64_t start = (int64_t)(turn % all->pieces) * all->elements;
        index[all->rank - 1] = start;
        all->piece(all->call, index, length - start < all->elements ? length - start : all->elements);
    }
}

uint64_t rt_nest_elements(const int32_t *extents, uint32_t rank) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count = rt_product(count, (uint64_t)extents[i]);
    return count;
}

bool rt_nest_is_countable(const int32_t *extents, uint32_t rank) {
    return rt_nest_elements(extents, rank) <= UINT32_MAX;
}

void rt_nest_run(const rt_cpu_call *call, rt_workers *workers, const int32_t *extents, uint32_t rank, int32_t size,
                 void (*piece)(const rt_cpu_call *, const int64_t *, int64_t)) {
    nest all = {.call = call, .piece = piece, .extents = extents, .rank = rank};
    uint64_t length = (uint64_t)all.extents[rank - 1];
    all.rows = rt_nest_elements(all.extents, rank - 1);
    uint64_t elements = rt_ceil_div(NUMBERS_PER_TURN, (uint64_t)size);
    all.elements = (int64_t)elements;
    all.pieces = rt_ceil_div(length, elements);
    all.rows_per_turn = length < elements ? elements / length : 1;
    rt_workers_run(workers, (uint32_t)(rt_ceil_div(all.rows, all.rows_per_turn) * all.pieces), nest_turn, &all);
}

/* What all turns along a middle axis share. */
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
    int64_t first = (int64_t)(turn % all->pieces) * RT_INNER_PER_TURN;
    (void)worker;
    all->piece(all->call, (int64_t)(turn / all->pieces), first,
               inner - first < RT_INNER_PER_TURN ? inner - first : RT_INNER_PER_TURN);
}

void rt_middle_run(const rt_cpu_call *call, rt_workers *workers, int32_t outer, int32_t inner,
                   void (*piece)(const rt_cpu_call *, int64_t, int64_t, int64_t)) {
    middle all = {call, piece, inner, rt_ceil_div((uint64_t)inner, RT_INNER_PER_TURN)};
    rt_workers_run(workers, (uint32_t)((uint64_t)outer * all.pieces), middle_turn, &all);
}
