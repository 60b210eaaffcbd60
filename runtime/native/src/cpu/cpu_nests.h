/* Nested loops over tensors of any strides, divided among the workers. An operator of them has extents (d) and the
 * strides of each tensor in elements (xs, ys ...), which may be negative or 0. Without state. */
#ifndef RT_CPU_NESTS_H
#define RT_CPU_NESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_operator.h"
#include "workers.h"

enum { RT_INNER_PER_TURN = 64 };

/* Product of extents, which are positive; UINT64_MAX where it overflows. */
uint64_t rt_nest_elements(const int32_t *extents, uint32_t rank);

/* Whether turns can be counted. */
bool rt_nest_is_countable(const int32_t *extents, uint32_t rank);

/* Calls `piece` for every piece of the nest of the first `rank` extents, six at most, which outlive the call: with the
 * index of its first element, and how many elements it has along the last axis. Turns are rows or pieces of a row; an
 * element is as much work as `size` numbers. */
void rt_nest_run(const rt_cpu_call *call, rt_workers *workers, const int32_t *extents, uint32_t rank, int32_t size,
                 void (*piece)(const rt_cpu_call *, const int64_t *, int64_t));

/* Address of the element at an index. */
static inline float *rt_nest_element(const rt_cpu_tensor *tensor, const int64_t *index, const int32_t *strides,
                                     uint32_t rank) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < rank; i++) offset += index[i] * strides[i];
    return rt_floats(tensor) + offset;
}

/* For what runs along the middle of three axes: calls `piece` for every outer index and piece of at most
 * RT_INNER_PER_TURN inner indices, with the first of these and their count. */
void rt_middle_run(const rt_cpu_call *call, rt_workers *workers, int32_t outer, int32_t inner,
                   void (*piece)(const rt_cpu_call *, int64_t, int64_t, int64_t));

#endif
