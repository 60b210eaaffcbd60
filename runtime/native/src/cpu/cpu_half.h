/* Convolutions over blocked tensors, and matrix products, in half arithmetic: activations stay floats in memory, weights are halves. Without
 * state; on any thread. */
#ifndef RT_CPU_HALF_H
#define RT_CPU_HALF_H

#include "cpu_blocked.h"

/* Products whose sum stays in half, which rounds each time: so many, up to whole blocks of channels of all taps. */
enum { RT_HALF_PRODUCTS = 128, RT_HALF_PIXELS = 3 };

/* The loops for one block. A value, of which all are constants. */
typedef struct {
    uint32_t pixels, blocks; /* the best size of a tile, at most RT_BLOCKED_PIXELS and RT_BLOCKED_BLOCKS */
    void (*product)(const rt_blocked_tile *tile); /* of tile->halves */
    /* sums [pixels][RT_CPU_BLOCK] of one block of columns and at least RT_HALF_PIXELS pixels; of a block of 16 alone */
    void (*rows)(const rt_tile *tile, const uint16_t *halves, float *sums);
} rt_half_kernels;

/* Those for the instruction set of `tiles` and a block of 8 or 16; NULL where it has no arithmetic in half. */
const rt_half_kernels *rt_half_kernels_of(const rt_tile_kernels *tiles, uint32_t block);

#endif
