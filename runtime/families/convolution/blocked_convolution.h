/* What the convolutions over blocked tensors share: blocked_conv2d, its first layer, and blocked_winograd. Without state. */
#ifndef RT_BLOCKED_CONVOLUTION_H
#define RT_BLOCKED_CONVOLUTION_H

#include "../../native/src/cpu/cpu_blocked.h"
#include "../../native/src/cpu/cpu_division.h"

/* The arguments of blocked_conv2d and blocked_winograd; in_c and out_c are those of one group. */
typedef rt_blocked_conv2d_args rt_conv_dims;

/* Their tensors. */
enum {
    RT_CONV_X = RT_BLOCKED_CONV2D_X,
    RT_CONV_W = RT_BLOCKED_CONV2D_W,
    RT_CONV_B = RT_BLOCKED_CONV2D_B,
    RT_CONV_RESIDUAL = RT_BLOCKED_CONV2D_RESIDUAL,
    RT_CONV_Y = RT_BLOCKED_CONV2D_Y
};

/* Compares weights, bias, residual and output of a convolution with the elements that its sizes ask for, which may be
 * anything; `depth`: products of an output; `weights`: elements of theirs, rt_conv_weights where they lie in blocks of
 * outputs. Fills the work. Returns the problem, or NULL. */
const char *rt_conv_tensors_check(const rt_cpu_call *call, const rt_conv_dims *d, uint64_t depth, uint64_t weights,
                                  rt_cpu_needs *needs);
uint64_t rt_conv_weights(const rt_cpu_call *call, const rt_conv_dims *d, uint64_t depth);

/* A tile of a convolution's output blocks from `block` (of all groups) on, for all pixels of an image. `depth`: as
 * above. */
rt_blocked_tile rt_conv_tile(const rt_cpu_call *call, const rt_conv_dims *d, int64_t image, int64_t block, int64_t depth);

/* Activations other than clamps are computed of all pixels of a turn at once, not tile by tile. The tile without such a
 * one; and that of `pixels` pixels of the whole tile's image; `block`: lanes. */
rt_blocked_tile rt_conv_without_function(rt_blocked_tile tile);
void rt_conv_apply(const rt_blocked_tile *whole, int64_t first_pixel, int64_t pixels, int64_t block);

/* --- the turns of direct convolutions (blocked_turns.cpu.c) --- */

/* What a convolution reads; `zeros`: a block that stands for the padding; `merges`: images of one pixel are computed as the
 * pixels of one image, as rows of a matrix. A value. */
typedef struct {
    const void *x, *zeros;
    int64_t element_bytes;
    bool merges;
} rt_conv_input;

/* A call with its division into turns. A value. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    rt_conv_dims d;
    rt_conv_input input;
    int64_t block;                    /* lanes */
    int64_t x_plane, x_pixel;         /* elements from one block of channels, and one pixel, to the next */
    int64_t y_plane, y_pixel;         /* the same of the output */
    int64_t in_blocks, out_blocks;    /* of a group */
    int64_t taps;
    uint32_t tile_pixels, tile_blocks;
    rt_division turns;                /* of an image and group */
} rt_conv_turns;

/* What one turn computes. Its tiles have `width` pixels, the first `wider` of them one more. A value. */
typedef struct {
    int64_t image, group;
    int64_t first_pixel, tiles, width, wider;
    int64_t first_block, end_block;
    const void **rows; /* those of a tile: [taps][RT_BLOCKED_PIXELS] */
} rt_conv_share;

/* What is wrong with the block, and with groups, which must not share one; NULL where nothing is. */
const char *rt_conv_sizes_check(const rt_cpu_call *call, const rt_conv_dims *d);

/* Bytes of a worker's row pointers, with which its scratch begins; UINT64_MAX where they overflow. */
uint64_t rt_conv_turn_bytes(const rt_conv_dims *d);

/* Divides a call; its first ints and floats are those of blocked_conv2d. `tile_pixels`, `tile_blocks`: the best size of
 * a tile. */
rt_conv_turns rt_conv_turns_divide(const rt_cpu_call *call, rt_workers *workers, rt_conv_input x, uint32_t tile_pixels,
                                   uint32_t tile_blocks);

/* The share of a turn, its row pointers in the worker's scratch. */
rt_conv_share rt_conv_turn_share(const rt_conv_turns *all, uint32_t turn, uint32_t worker);

/* --- the turns of first layers (blocked_first.cpu.c) --- */

/* How a first layer is divided: a turn is some output rows of one image. It brings the rows and columns of the input that
 * lie under them to the worker's memory, with their padding; UINT64_MAX where these overflow. A value. */
typedef struct {
    int64_t rows_per_turn, turns_per_image;
    uint64_t rows, columns;
} rt_first_turns;

/* NHWC: of the option FIRST. */
enum { RT_FIRST_NHWC = 2 };

/* Pixels have so many bytes in the worker's memory, which is to stay in the cache. */
rt_first_turns rt_first_turns_divide(const rt_conv_dims *d, uint64_t pixel_bytes);

/* blocked_conv2d where FIRST is 1; its sizes are in range. Both keep the contract of
 * rt_cpu_operator. */
const char *rt_blocked_first_check(const rt_cpu_call *call, rt_cpu_needs *needs);
void rt_blocked_first_run(const rt_cpu_call *call, rt_workers *workers);

#endif
