/* Elements of a row with their places, and how they are sorted. Without state. */
#ifndef RT_CPU_ITEMS_H
#define RT_CPU_ITEMS_H

#include <stdbool.h>
#include <stdint.h>

/* An element with its place; reals are ordered by `real`, wholes by `whole`. A value. */
typedef struct {
    double real;
    int64_t whole, position;
} rt_item;

/* Sorts `count` items by way of as many items behind them. Equal ones keep their order; a NaN counts as the greatest. */
void rt_items_sort(rt_item *items, int64_t count, bool largest, bool real, bool is_unsigned);

#endif
