/* Stacks of products of one shape, divided among the workers: groups of a convolution, matrices of a matmul. Without
 * state. */
#ifndef RT_CPU_PRODUCT_H
#define RT_CPU_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_rows.h"
#include "cpu_tile.h"
#include "workers.h"

/* What to compute; its memory is the caller's. A value. */
typedef struct {
    const rt_tile_kernels *tiles;
    rt_window window; /* of the first group's inputs */
    uint64_t taps, depth;
    uint64_t groups, pixels, channels; /* of a group's output */
    const float *weights;              /* of the first group */
    int64_t weights_stride, block_stride;
    bool packed; /* else the last block of weights may be incomplete */
    int64_t column_stride; /* from one channel to the next, of weights that are not packed */
    /* elements from one group to the next; residual and bias lie like the outputs */
    int64_t group_inputs, group_weights, group_outputs;
    rt_epilogue epilogue; /* of the first group */
} rt_product_job;

/* Whether the sizes are within what the division into turns can count. */
bool rt_product_is_countable(uint64_t groups, uint64_t pixels, uint64_t channels, uint64_t taps);

/* Scratch bytes that each worker needs, UINT64_MAX where they overflow. */
uint64_t rt_product_scratch_bytes(uint64_t taps, uint64_t depth, bool packed);

/* Computes all of it and waits. The sizes are countable, and each worker has the scratch bytes. */
void rt_product_run(const rt_product_job *job, rt_workers *workers);

#endif
