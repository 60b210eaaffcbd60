/* Stacks of products of one shape, divided among the workers: groups of a convolution, matrices of a matmul. Without
 * state. */
#ifndef RT_CPU_PRODUCT_H
#define RT_CPU_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_half.h"
#include "cpu_rows.h"
#include "cpu_tile.h"
#include "workers.h"

/* What to compute; its memory is the caller's. A value. */
typedef struct {
    const rt_tile_kernels *tiles;
    rt_window window; /* of the first group's inputs */
    uint64_t taps, depth;
    uint64_t groups, pixels, channels; /* of a group's output */
    const float *weights;              /* of the first group; NULL: `narrow` */
    rt_narrow_weights narrow;
    const rt_half_kernels *half;       /* multiply halves of `narrow` as they are; NULL: nothing does */
    int64_t weights_stride, block_stride; /* of narrow ones: bytes */
    bool packed; /* else the last block of weights may be incomplete */
    int64_t column_stride; /* from one channel to the next, of weights that are not packed */
    /* elements from one group to the next; residual and bias lie like the outputs */
    int64_t group_inputs, group_weights, group_outputs;
    rt_epilogue epilogue; /* of the first group */
} rt_product_job;

/* One group of packed weights, with a row for each output channel and a column for each input channel. */
static inline rt_cpu_packing rt_rows_packing(int32_t in_c, int32_t out_c) {
    return (rt_cpu_packing){1, (uint64_t)out_c, (uint64_t)in_c};
}

/* The epilogue of a call with the parameters of its activation; `residual` is NULL for an operator that has none. */
rt_epilogue rt_product_epilogue(const rt_cpu_call *call, float a, float b, const float *bias,
                                const rt_cpu_tensor *residual, const rt_cpu_tensor *y);

/* Gives a job the packed weights of a call, whose blocks follow each other. Its taps and depth must be set before. */
void rt_product_pack(rt_product_job *job, const rt_cpu_call *call);

/* Whether the sizes are within what the division into turns can count. */
bool rt_product_is_countable(uint64_t groups, uint64_t pixels, uint64_t channels, uint64_t taps);

/* Scratch bytes that each worker needs, UINT64_MAX where they overflow. `packed` is the call whose packed weights they
 * are; NULL for weights that are not packed. */
uint64_t rt_product_scratch_bytes(const rt_cpu_call *packed, uint64_t taps, uint64_t depth);

/* Computes all of it and waits. The sizes are countable, and each worker has the scratch bytes. */
void rt_product_run(const rt_product_job *job, rt_workers *workers);

#endif
