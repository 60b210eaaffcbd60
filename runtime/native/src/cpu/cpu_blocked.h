/* Convolutions and pools over blocked tensors: element (n, c, h, w) lies at
 * (((n * ceil(C/B) + c/B) * H + h) * W + w) * B + c%B, B lanes being 8 or 16. A plane is one block of channels of one
 * image. Lanes behind the last channel hold anything finite, and are never multiplied.
 *
 * The innermost loops (cpu_lanes_*.c) are compiled once for each instruction set and block. Without state; on any
 * thread.
 */
#ifndef RT_CPU_BLOCKED_H
#define RT_CPU_BLOCKED_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_arguments.h"
#include "cpu_tile.h"

struct rt_quantized_pool;
struct rt_quantized_pair;
struct rt_quantized_norm;
struct rt_quantized_rows;
struct rt_winograd_bytes;
struct rt_winograd_product;
struct rt_winograd_sums;

enum { RT_BLOCKED_PIXELS = 6, RT_BLOCKED_BLOCKS = 4, RT_WINOGRAD_ALPHA = 6 };
enum { RT_BLOCKED_WEIGHT_BYTES = 128 << 10 }; /* the most weight_bytes */
enum { RT_FEW_CHANNELS = 4 }; /* outputs of a convolution whose lanes are better filled with inputs */

/* A window that slides over planes. A value. */
typedef struct {
    int64_t in_h, in_w, out_h, out_w, k_h, k_w, stride_h, stride_w, pad_t, pad_l, dil_h, dil_w;
} rt_blocked_window;

/* Neighbouring output pixels of one image x neighbouring blocks of output channels:
 * y[b][p] = activation(start + sum over taps t and channels c of row(t, p, c) * weights[b][t][c][lane]), where the start
 * is bias[b] + residual[b][p] or, without a bias, what y holds. A value. */
typedef struct {
    /* rows[t * RT_BLOCKED_PIXELS + p] points at the first input block; the pointer `zeros` stays in every block */
    const void *const *rows;
    const float *zeros; /* a block of zeros */
    const int32_t *offsets; /* `first` only: from a row's pointer to the input of each tap and channel */
    uint32_t taps, channels;
    int64_t offset, plane;              /* elements to the first input block that is summed, and from one to the next */
    const float *weights;               /* [b][t][c][lane] */
    const uint16_t *halves;             /* weights in half, of which the caller makes floats first, unless the loops
                                         * compute in half; NULL: none */
    int64_t tap_stride, weights_stride; /* elements from one t, and one b, to the next */
    int64_t ahead;                      /* elements from a weight to one that a later tile needs; 0: of none is known */
    uint32_t pixels, blocks;            /* at least 1, at most what the kernels say */
    const float *bias, *residual;       /* NULL: none; the residual lies like y */
    float *y;
    int64_t y_plane; /* elements from one output block to the next */
    uint32_t activation;
    float a, b;
    const rt_tile_kernels *tiles; /* have the activation */
} rt_blocked_tile;

/* Some rows of one output plane of a depthwise convolution or a pool. A value. */
typedef struct {
    const rt_blocked_window *window;
    const float *x;             /* the input plane */
    const uint8_t *x_bytes;     /* the same in bytes of this zero point; NULL: in floats; depthwise only */
    uint8_t zero;
    /* depthwise only, as what follows: the rows under the only output row, padded; NULL: `padded` is memory for such
     * (rt_padded_rows_of), 64-aligned */
    const float *const *under;
    void *padded;
    const float *weights;       /* [k_h][k_w][lane], or [group][k_h][k_w][lane] */
    int64_t group;              /* more than 1: each lane sums the inputs of as many neighbours, a power of two */
    const float *bias;          /* of the block */
    const float *residual;      /* NULL: none; the plane */
    float *y;                   /* the output plane */
    int64_t first_row, end_row; /* of the output */
    uint32_t activation;        /* depthwise only */
    float a, b;
    const rt_tile_kernels *tiles; /* have the activation; depthwise only */
    uint32_t pooling; /* RT_POOLING_*; pool only */
    bool count_include_pad;
} rt_blocked_rows;

/* Memory for rows under a window, with their padding: pointers to k_h rows, one row of zeros, and `rows` rows. A value. */
typedef struct {
    uint64_t pointer_bytes, rows, width; /* width: pixels */
} rt_padded_rows;

/* How the planes of an output are divided into turns, each some rows of one plane. Where planes are large, rows are the
 * slowest index: a worker has the same part of the image in every layer. A value. */
typedef struct {
    int64_t planes, rows, rows_per_turn, turns_per_plane;
} rt_plane_turns;

/* The rows of one turn. A value. */
typedef struct {
    int64_t plane, first_row, end_row;
} rt_plane_turn;

/* One Winograd tile of one block: `alpha` x `alpha` inputs at (top, left), or as many sums for its outputs, which lie
 * `step` elements apart in `domain`. A value. */
typedef struct {
    float *domain;
    int64_t step;
    int64_t height, width, top, left; /* of the plane, and of the tile in it */
    const float *x;                   /* input: the plane */
    const uint8_t *x_bytes;           /* the same in bytes of this zero point; NULL: in floats */
    float zero;
    float *y;                         /* output: the plane */
    uint8_t *y_bytes;                 /* the same in bytes, rounded and less `a`; NULL: in floats */
    const float *bias, *residual;     /* output; residual NULL: none */
    uint32_t activation;
    float a, b;
    const rt_tile_kernels *tiles; /* have the activation */
} rt_winograd_tile;

/* y = (x - mean) * factor + shift between two bounds, lane by lane. A value. */
typedef struct {
    const float *x, *mean, *factor, *shift;
    float low, high;
    uint64_t pixels;
    float *y;
} rt_blocked_affine;

/* The loops for one instruction set and block. A value, of which all are constants. */
typedef struct {
    uint32_t pixels, blocks; /* the best size of a tile, at most RT_BLOCKED_PIXELS and RT_BLOCKED_BLOCKS */
    uint32_t weight_bytes;   /* so many of a tile's stay in the cache while it goes over an image */
    void (*product)(const rt_blocked_tile *tile);
    /* a tile of one block and up to `few_pixels` pixels, of RT_FEW_CHANNELS channels at most, whose weights are
     * [output][t][c], c filled up to whole blocks; inputs behind the last one are multiplied by zeros */
    uint32_t few_pixels;
    void (*few)(const rt_blocked_tile *tile);
    /* a tile of 1 or `pixels` pixels, or `first_pixels` where it has no more than half the `blocks`, whose inputs lie
     * anywhere, those of a pixel equally far from those of the next: rows[p][offsets[i]] * weights[b][i][lane], i < taps */
    uint32_t first_pixels; /* at most twice RT_BLOCKED_PIXELS */
    void (*first)(const rt_blocked_tile *tile);
    void (*depthwise)(const rt_blocked_rows *rows);
    void (*pool)(const rt_blocked_rows *rows);
    void (*sum)(const float *x, uint64_t pixels, float *sums); /* the lanes of a plane over all its pixels */
    void (*squares)(const float *x, uint64_t pixels, const float *mean, float *sums); /* of the lanes' distances from it */
    void (*affine)(const rt_blocked_affine *pixels);
    /* for output tiles of 2 x 2 and of 4 x 4 */
    void (*winograd_input[2])(const rt_winograd_tile *tile);
    void (*winograd_output[2])(const rt_winograd_tile *tile);
    /* in integers (cpu_quantized.h), for output tiles of 4 x 4; x86 only */
    void (*integer_winograd_input)(const struct rt_winograd_bytes *tile);
    void (*integer_winograd_product)(const struct rt_winograd_product *tile);
    void (*integer_winograd_output)(const struct rt_winograd_sums *tile);
    void (*quantized_depthwise)(const struct rt_quantized_rows *rows); /* cpu_quantized.h */
    void (*quantized_pool)(const struct rt_quantized_pool *pool);
    void (*quantized_pair)(const struct rt_quantized_pair *pair);
    void (*quantized_normalize)(const struct rt_quantized_norm *row);
    /* the softmax of a row of whole registers, of which `count` bytes count: times per_weight, rounded, plus zero; in
     * place. `exponentials`: RT_EXPONENTIALS. Returns the sum of the results, each less zero */
    int32_t (*quantized_softmax)(uint8_t *row, int64_t count, const float *exponentials, float per_weight, int32_t zero);
    /* y = x * per_step + zero of `count` floats, whole registers of them, rounded to bytes; a NaN becomes the least */
    void (*quantize)(const float *x, float per_step, int32_t zero, int64_t count, uint8_t *y);
    /* the same of x / step + zero, as ONNX's QuantizeLinear rounds it */
    void (*quantize_by)(const float *x, float step, int32_t zero, int64_t count, uint8_t *y);
    /* makes a range from range[0] to range[1] hold the first `count` lanes of each block, too */
    void (*extend)(const float *x, int64_t blocks, uint32_t count, float *range);
    /* the same of pixels of up to four channels, whose bytes are one word; those behind the last channel may be anything.
     * `plane`: floats from one channel of all pixels to the next; 0: those of a pixel follow each other */
    void (*quads)(const float *x, int64_t plane, int64_t channels, float per_step, int32_t zero, int64_t count, uint32_t *y);
    /* y = table[x] of `count` bytes, of a table of 256; y may be x */
    void (*lookup)(const uint8_t *x, const uint8_t *table, int64_t count, uint8_t *y);
    /* y = (x - zero) * step of whole registers of bytes */
    void (*dequantize)(const uint8_t *x, float step, int32_t zero, int64_t count, float *y);
} rt_blocked_kernels;

/* Those for the instruction set of `tiles` and a block of 8 or 16. */
const rt_blocked_kernels *rt_blocked_kernels_of(const rt_tile_kernels *tiles, uint32_t block);

/* A range of taps of a window that fall within the input. A value. */
typedef struct {
    int64_t first, end;
} rt_tap_range;

/* The taps of `k`, `dil` apart, that lie in 0 .. size - 1 where the first is at `start`; may be empty. */
static inline rt_tap_range rt_taps_inside(int64_t start, int64_t k, int64_t dil, int64_t size) {
    int64_t first = start < 0 ? -start : 0;
    int64_t end = start < size ? size - start : 0;
    if (dil > 1) { /* a division takes longer than a pixel */
        first = (first + dil - 1) / dil;
        end = (end + dil - 1) / dil;
    }
    return (rt_tap_range){first, end < k ? end : k};
}

/* What the rows under a window take; and that in bytes, UINT64_MAX where it overflows. */
rt_padded_rows rt_padded_rows_of(const rt_blocked_window *window);
uint64_t rt_padded_rows_bytes(const rt_blocked_window *window, uint32_t block);

/* Divides `planes` planes of height x width. */
rt_plane_turns rt_plane_turns_divide(const rt_workers *workers, int64_t planes, int64_t height, int64_t width);
static inline uint32_t rt_plane_turns_count(const rt_plane_turns *all) {
    return (uint32_t)(all->planes * all->turns_per_plane);
}
rt_plane_turn rt_plane_turn_at(const rt_plane_turns *all, uint32_t turn);

/* --- what the operators' checks share (cpu_blocked_check.c) --- */

/* Whether the block is one that kernels are compiled for. */
bool rt_block_is_known(const rt_cpu_call *call);

/* Elements of a blocked tensor, or of one value for each of its channels, padded to whole blocks; UINT64_MAX where they
 * overflow. */
uint64_t rt_blocked_elements(uint64_t images, uint64_t channels, uint64_t pixels, uint32_t block);

#endif
