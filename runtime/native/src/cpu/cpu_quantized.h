/* Convolutions over blocked tensors of eight bits: an element u, 0 to 255, stands for step * (u - zero). Weights are
 * integers of eight bits too, sums of 32; what becomes of a sum is told in floats (rt_quantized_end).
 *
 * The innermost loops (cpu_quantized_lanes.c) are compiled once for each instruction set and block, into sums of two or
 * four products where there is an instruction for that. Without state; on any thread.
 */
#ifndef RT_CPU_QUANTIZED_H
#define RT_CPU_QUANTIZED_H

#include <string.h>

#include "cpu_blocked.h"

/* Channels whose weights follow each other in a lane: [b][t][ceil(c/4)][lane][4], zeros behind the last channel; and the
 * bits BYTES of what lies in bytes. PAIRS: of weights 2i and 2i + 1 of a quad, the positive ones sum to 128 at most, the
 * negative ones to -128 at least, so that 16 bits hold the sum of their products. FIXED: sums are multiplied by fixed
 * point, and rounded twice as TFLite does it, or ONCE; NEAR: all shifts are to the right, and scales in floats there.
 * FOUND: the steps of what lies in bytes of the input, or of a conversion, are found as the model runs; OFFSETS: and
 * weights have zero points. BOUNDED: no result in floats, a residual left out, is beyond 2^30, before it comes within its
 * bounds. */
enum {
    RT_QUAD = 4,
    RT_BYTES_OUTPUT = 1,
    RT_BYTES_RESIDUAL = 2,
    RT_BYTES_INPUT = 4,
    RT_BYTES_PAIRS = 8,
    RT_BYTES_FIXED = 16,
    RT_BYTES_ONCE = 32,
    RT_BYTES_NEAR = 64,
    RT_BYTES_FOUND = 128,
    RT_BYTES_OFFSETS = 256,
    RT_BYTES_BOUNDED = 512
};

/* The steps of a tensor that were found as the model runs, which follow its bytes: these stand for step * (u - zero).
 * A value. */
typedef struct {
    float step;
    int32_t zero;
} rt_found_steps;

/* Those of a tensor of so many elements; the step may be anything, whatever the plan says. */
static inline rt_found_steps rt_found_steps_of(const void *bytes, uint64_t elements) {
    rt_found_steps found;
    memcpy(&found, (const uint8_t *)bytes + elements, sizeof found);
    found.zero = (uint8_t)found.zero;
    return found;
}

/* What becomes of sums: v = sum * scale + bias + residual * residual_scale of each lane. Bytes: v, rounded and within a
 * and b, which are whole, is stored less a. Floats: activation(v). FIXED: scales are int32 multipliers, 2^-31; `shifts`
 * behind each are its shift (to the left), the scale of both as a float, and the slack: what is to be added to a result's
 * absolute value before it is rounded, since TFLite rounds upwards first; both times 2^16. Biases are int32. FOUND: scales
 * are those of weights alone, and `shifts` behind each bias is the int32 sum of its lane's weights; OFFSETS: as far behind
 * that what the weights lack. A value. */
typedef struct {
    const float *scales, *bias;
    int64_t shifts;
    float step;   /* FOUND: of the input */
    int32_t zero; /* FOUND: what is to be taken from each of its bytes */
    const void *residual; /* NULL: none; lies like y */
    float residual_scale;
    void *y;
    uint32_t bytes; /* RT_BYTES_*: residual and y are uint8_t, else floats */
    uint32_t activation;
    float a, b;
    const rt_tile_kernels *tiles; /* have the activation */
} rt_quantized_end;

/* Neighbouring output pixels of one image x neighbouring blocks of output channels. A value. */
typedef struct {
    const void *const *rows; /* as of rt_blocked_tile */
    const void *zeros;       /* a block of the zero point */
    uint32_t taps, channels;
    int64_t plane;              /* elements from one input block to the next */
    const int8_t *weights;
    const int16_t *words;       /* the same as `widen` made them; NULL: not */
    int64_t weights_stride;     /* elements from one b to the next */
    uint32_t pixels, blocks;    /* at least 1, at most what the kernels say */
    /* what is added to the sums of each pixel, OFFSETS: times that of each lane; NULL: nothing. Not with FIXED */
    const int32_t *starts;
    int64_t signed_bias;        /* elements from a bias to that for sums over u - 128 */
    int64_t y_plane, y_pixel;   /* elements from one output block, and one pixel, to the next */
    rt_quantized_end end;       /* at the first pixel and block */
} rt_quantized_tile;

/* Products of a depthwise output, whose sum floats hold as it is: bytes are multiplied as floats, a product for each lane
 * whatever its elements. */
enum { RT_QUANTIZED_TAPS = (1 << 24) / (255 * 128) };

/* Some rows of one output plane of a depthwise convolution. A value. */
typedef struct rt_quantized_rows {
    const rt_blocked_window *window;
    const uint8_t *x;           /* the input plane */
    uint8_t zero;               /* of x */
    const int8_t *bytes;        /* the weights, [k_h][k_w][lane] */
    const float *weights;       /* the same as floats */
    void *padded;               /* as of rt_blocked_rows */
    float *sums;                /* memory for an output row */
    int64_t first_row, end_row; /* of the output */
    rt_quantized_end end;       /* at the first pixel of the plane */
} rt_quantized_rows;

/* Some rows of one output plane of a pool: v = (value - zero) * scale of each lane, value being the mean or the maximum,
 * is rounded, and stored less `low`, between low and high, which are whole. `fixed`: a mean is a quotient, halves away
 * from zero (1), or the sum times 2^(shift - 31) multiplier (2). A value. */
typedef struct rt_quantized_pool {
    const rt_blocked_window *window;
    const uint8_t *x;           /* the input plane */
    uint8_t *y;                 /* the output plane */
    int64_t first_row, end_row; /* of the output */
    uint32_t pooling;           /* RT_POOLING_* */
    bool count_include_pad;     /* padding holds the zero point */
    int32_t zero, fixed, multiplier, shift;
    float scale, low, high;
} rt_quantized_pool;

/* Some blocks of the sum or the product of two tensors: of each lane (a - a_zero) * a_scale, and b's alike, joined,
 * rounded and stored as those of a pool. `fixed`: by multipliers and shifts of a, b and the result; of scales only the
 * sign counts. A value. */
typedef struct rt_quantized_pair {
    const uint8_t *a, *b;
    uint8_t *y;
    int64_t blocks, b_step; /* b_step: elements of b from block to block, 0 where one is for all */
    bool multiplies, fixed;
    int32_t multipliers[3], shifts[3];
    float a_zero, a_scale, b_zero, b_scale, low, high;
} rt_quantized_pair;

/* Channels whose inputs a point of Winograd's algorithm in integers has together, whatever the block. */
enum { RT_WINOGRAD_WIDE = 16 };

/* WIDE channels of some tiles of Winograd's F(4x4, 3x3) in integers: the planes that hold eight of them each, or the other
 * half of a block; transformed they are [tile][WIDE], `step` elements from point to point. A value. */
typedef struct rt_winograd_bytes {
    const uint8_t *x[2];
    uint8_t zero;
    int64_t height, width, pad_t, pad_l; /* of the plane */
    int64_t columns, first, end;         /* tiles of a row, and which of the plane's are meant */
    int16_t *domain;
    int64_t step;
} rt_winograd_bytes;

/* Neighbouring tiles x blocks of outputs of one point: inputs are [wides][tile][WIDE], `plane` elements from one to the
 * next, weights [block][pair of channels][lane][2], sums [block][tile][lane]. A value. */
typedef struct rt_winograd_product {
    const int16_t *inputs, *weights;
    int32_t *sums;
    int64_t plane, weights_stride, sums_plane;
    uint32_t wides, pixels, blocks;
} rt_winograd_product;

/* The sums of such tiles of one block, [tile][lane], and what becomes of them. A value. */
typedef struct rt_winograd_sums {
    const int32_t *sums;
    int64_t step;
    int64_t height, width, columns, first, end_tile; /* as above, of the output */
    rt_quantized_end end;                            /* at the plane's begin */
} rt_winograd_sums;

/* What a softmax of bytes reads: e^(-step * i) of 256 i, and of each sixteenth again. */
enum { RT_EXPONENTIALS = 256 + 16 };

/* A row of whole blocks to be normalised: v = (x - mean) / sqrt(variance + epsilon) * s + t of each lane is rounded and
 * stored less `low`, between low and high; the mean is zero where it is not centered. A value. */
typedef struct rt_quantized_norm {
    const uint8_t *x;
    const float *s, *t;
    uint8_t *y;
    int64_t count; /* whose sum of squares fits 31 bits */
    bool centered;
    int32_t zero;
    float epsilon, low, high;
} rt_quantized_norm;

/* Whether all whole numbers between `low` and `high`, and zero, are bytes when `low` is taken away. */
static inline bool rt_are_byte_bounds(float low, float high) {
    return low >= -255.0f && low <= 0.0f && high >= low && high <= low + 255.0f;
}

/* The loops for one instruction set and block. A value, of which all are constants. */
typedef struct {
    uint32_t pixels, blocks; /* the best size of a tile, at most RT_BLOCKED_PIXELS */
    void (*product)(const rt_quantized_tile *tile);
    /* weights in 16 bits, with which many tiles are multiplied in fewer steps; NULL: they are multiplied as bytes */
    void (*widen)(const int8_t *weights, int64_t count, int16_t *words);
    bool (*depthwise)(const rt_quantized_rows *rows); /* returns whether it serves such windows; NULL: none */
} rt_quantized_kernels;

/* Those for the instruction set of `tiles`, a block of 8 or 16, and weights of which BYTES tells. */
const rt_quantized_kernels *rt_quantized_kernels_of(const rt_tile_kernels *tiles, uint32_t block, uint32_t bytes);

#endif
