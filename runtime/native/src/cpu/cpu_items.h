/* Elements of a row with their places, how they are sorted, and how rows are dealt to workers. Without state. */
#ifndef RT_CPU_ITEMS_H
#define RT_CPU_ITEMS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_strided.h"
#include "workers.h"

/* An element with its place; reals are ordered by `real`, wholes by `whole`. A value. */
typedef struct {
    double real;
    int64_t whole, position;
} rt_item;

/* Whether `a` is sorted strictly before `b`. */
bool rt_item_is_first(const rt_item *a, const rt_item *b, bool largest, bool real, bool is_unsigned);

/* Sorts `count` items by way of as many items behind them. Equal ones keep their order; a NaN counts as the greatest. */
void rt_items_sort(rt_item *items, int64_t count, bool largest, bool real, bool is_unsigned);

/* Computes the row at these indices of the loops before the last; `items` is the worker's scratch. */
typedef void rt_items_row(const rt_cpu_call *call, const int64_t *index, rt_item *items);

/* Calls `row` for every row of a strided operator, divided among the workers. */
void rt_items_run(const rt_cpu_call *call, rt_items_row *row, rt_workers *workers);

#endif
