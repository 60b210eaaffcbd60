/* The innermost loops of convolutions and matrix products, compiled once for each instruction set. Without
 * state; on any thread. */
#ifndef RT_CPU_TILE_H
#define RT_CPU_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_operator.h"

enum { RT_TILE_PIXELS = 6, RT_TILE_BLOCKS = 4 };

/* What happens to sums before they are stored: y = activation(sum + bias + residual), or activation((sum + bias)
 * times the residual). A value. */
typedef struct {
    const float *bias;     /* NULL: none; indexed by channel */
    const float *residual; /* NULL: none; pixel, then channel */
    int64_t residual_stride;
    bool multiplies; /* by the residual */
    float *y;
    int64_t y_stride;
    uint32_t activation;
    float a, b;
} rt_epilogue;

/* `pixels` pixels x up to `blocks` blocks of RT_CPU_BLOCK output channels:
 * sum[p][o] = sum over taps t and channels c of rows[t * RT_TILE_PIXELS + p][c] * weights[t * depth + c][o].
 * Every row pointer of the first RT_TILE_PIXELS of a tap is valid, whatever `pixels` is. A value. */
typedef struct {
    const float *const *rows;
    uint32_t taps, depth;
    const float *weights;
    int64_t weights_stride; /* elements from one c to the next */
    int64_t block_stride;   /* from one block to the next */
    uint32_t pixels, blocks;
    uint64_t first_pixel, first_channel, channels; /* of the output; channels: how many are stored */
    const rt_epilogue *epilogue;
} rt_tile;

/* Weights of one group that are no floats (rt_cpu_packing), from a block of rows on. A value. */
typedef struct {
    const uint8_t *data;
    uint64_t columns, group; /* group: columns that share a scale */
    uint64_t scales, block_bytes; /* scales of a row; none of halves */
    uint32_t bits;
} rt_narrow_weights;

/* All channels of some pixels of a depthwise convolution, row pointers as above. A value. */
typedef struct {
    const float *const *rows;
    uint32_t taps;
    const float *weights; /* [taps][channels] */
    uint64_t channels;
    uint32_t pixels;
    uint64_t first_pixel;
    const rt_epilogue *epilogue;
} rt_depthwise_tile;

/* y[q][r] = x[q] . row r, each of `depth` neighbours. A value. */
typedef struct {
    const float *x, *rows;
    float *y;
    int64_t x_stride, rows_stride, y_stride; /* elements from one to the next */
    uint64_t queries, count, depth;          /* count: rows */
} rt_dots;

/* The loops for one instruction set. A value, of which all are constants. */
struct rt_tile_kernels {
    const char *name; /* of the instruction set */
    /* the best size of a tile, at most RT_TILE_PIXELS and RT_TILE_BLOCKS */
    uint32_t pixels, blocks, depthwise_pixels;
    void (*product)(const rt_tile *tile);
    /* the same of one block of narrow weights, which a pixel reads as they are: for few pixels */
    void (*narrow_product)(const rt_tile *tile, const rt_narrow_weights *weights);
    /* the floats that narrow weights stand for: a block of them, [columns][RT_CPU_BLOCK] */
    void (*narrow_to_floats)(const rt_narrow_weights *weights, float *target);
    /* outputs of a tile's sums [pixels][blocks][RT_CPU_BLOCK] */
    void (*complete)(const rt_tile *tile, float *sums);
    void (*halves_to_floats)(const uint16_t *halves, uint64_t count, float *target);
    void (*depthwise)(const rt_depthwise_tile *tile);
    /* v = function(v, a, b) of each value (RT_UNARY_...) */
    void (*apply)(uint32_t function, float a, float b, float *values, uint64_t count);
    float (*greatest)(const float *values, uint64_t count); /* a NaN where there is one; -infinity of none */
    /* v = e^(v - less) of each value; returns the sum */
    float (*exponentials)(float *values, uint64_t count, float less);
    /* sums of x - less and of its square */
    float (*sum)(const float *x, uint64_t count, float less);
    float (*squares)(const float *x, uint64_t count, float less);
    /* y = (x - less) * factor * s + t of each value; y may be x, else they do not overlap */
    void (*affine)(const float *x, const float *s, const float *t, float less, float factor, uint64_t count, float *y);
    void (*dots)(const rt_dots *all);
};

/* How many of the `rest` blocks, at least one, the next tile has, so that all have about as many. */
static inline uint32_t rt_tile_blocks(const rt_tile_kernels *tiles, uint64_t rest) {
    uint64_t passes = (rest + tiles->blocks - 1) / tiles->blocks;
    return (uint32_t)((rest + passes - 1) / passes);
}

/* Those of an instruction set, or the fastest (NULL); NULL where this CPU or this build does not have
 * it. */
const rt_tile_kernels *rt_tile_kernels_choose(const char *name);

/* Whether this CPU adds and multiplies registers of halves. */
bool rt_cpu_has_halves(void);

#endif
