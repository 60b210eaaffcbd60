/* blocked_winograd: a 3x3 convolution of stride 1 by Winograd's minimal filtering F(m x m, 3 x 3), m = WINO. A turn is a
 * range of tiles of one image with a range of output blocks: it transforms the tiles' inputs, lets each of the alpha^2
 * matrices of weights pass over them, and transforms the sums to outputs; all of it in the worker's memory.
 *
 * quantized_winograd: the same from bytes less ZERO, without a residual; BYTES says what lies in bytes. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_quantized.h"
#include "blocked_convolution.h"

/* Bytes of transformed inputs that a turn should stay within, and the tiles of a turn. */
enum { DOMAIN_BYTES = 768 << 10, MIN_TILES = 6, MAX_TILES = 48 };

/* Transforming the inputs of a tile takes as long as multiplying them with the weights of so many sixths of a block. */
enum { TRANSFORM_WORK = 3 };

static const float zeros[16 * RT_BLOCKED_BLOCKS];

/* A call with its division into turns. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    rt_workers *workers;
    rt_conv_dims d;
    int64_t block, tile, points;       /* lanes; outputs of a tile's side; alpha^2 */
    int64_t in_blocks, out_blocks;     /* of an image */
    int64_t columns, tiles;            /* of an image */
    rt_division turns;                 /* of an image; its pixels are tiles */
} division;

/* What one turn computes. The transformed inputs lie as [point][in block][tile][lane], the sums as
 * [point][out block][tile][lane]. */
typedef struct {
    int64_t image, first_tile, tiles, first_block, end_block;
    float *inputs, *sums;
    float *floats; /* that the weights in half of a point become */
} share;

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Numbers of transformed values of a tile. */
static uint64_t points_of(const rt_cpu_call *call) { return (call->codes.wino + 2) * (call->codes.wino + 2); }

/* Tiles whose transformed inputs fill the cache, within bounds. */
static uint64_t tiles_per_turn(const rt_cpu_call *call, const rt_conv_dims *d) {
    uint64_t bytes = points_of(call) * rt_ceil_div((uint64_t)d->in_c, call->codes.block) * call->codes.block * sizeof(float);
    uint64_t tiles = DOMAIN_BYTES / bytes / RT_BLOCKED_PIXELS * RT_BLOCKED_PIXELS;
    return tiles < MIN_TILES ? MIN_TILES : smaller(tiles, MAX_TILES);
}

static const char *sizes_check(const rt_cpu_call *call, const rt_conv_dims *d) {
    const int32_t ones[] = {d->stride_h, d->stride_w, d->dil_h, d->dil_w, d->groups};
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (call->codes.wino != 2 && call->codes.wino != 4) return "its tile is neither 2 nor 4";
    for (size_t i = 0; i < RT_COUNT(ones); i++) {
        if (ones[i] != 1) return "it has a stride, a dilation or groups";
    }
    return d->k_h == 3 && d->k_w == 3 ? NULL : "its window is not 3x3";
}

static const char *winograd_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_winograd_args_of(call);
    const char *problem = sizes_check(call, &d);
    if (problem != NULL) return problem;
    uint64_t depth = (uint64_t)d.in_c, pixels = rt_product((uint64_t)d.in_h, (uint64_t)d.in_w);
    uint32_t block = call->codes.block;
    if (!rt_flat_fits(&call->tensors[RT_CONV_X], rt_blocked_elements((uint64_t)d.batch, depth, pixels, block)))
        return "the input exceeds its pool";
    uint64_t products = rt_product(points_of(call), depth);
    problem = rt_conv_tensors_check(call, &d, products, rt_conv_weights(call, &d, products), needs);
    if (problem != NULL) return problem;
    uint64_t lanes = (rt_ceil_div(depth, block) + RT_BLOCKED_BLOCKS) * block;
    uint64_t floats = call->codes.weight_bits ? rt_product(depth, RT_BLOCKED_BLOCKS * block * sizeof(float)) : 0;
    uint64_t domains = rt_product(points_of(call) * tiles_per_turn(call, &d) * sizeof(float), lanes);
    needs->scratch_bytes = rt_sum(domains, floats);
    return NULL;
}

/* The same of a call whose tensors in bytes are counted as such, its floats among them as floats. */
static const char *quantized_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_quantized_winograd_args_of(call);
    rt_cpu_call counted = *call;
    rt_cpu_tensor *y = &counted.tensors[RT_CONV_Y];
    if (!(call->codes.bytes & RT_BYTES_INPUT) || call->codes.residual) return "it reads no bytes, or has a residual";
    if (call->codes.bytes & RT_BYTES_OUTPUT) {
        if (!rt_are_byte_bounds(d.act_a, d.act_b)) return "its bounds are no bytes";
    } else {
        if (y->offset % sizeof(float) != 0) return "its output begins within a float";
        y->count /= sizeof(float);
    }
    return winograd_check(&counted, needs);
}

/* --- division --- */

static division divide(const rt_cpu_call *call, rt_workers *workers) {
    division all = {.call = call, .workers = workers, .d = rt_blocked_winograd_args_of(call), .block = call->codes.block};
    all.kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    all.tile = call->codes.wino;
    all.points = (int64_t)points_of(call);
    all.in_blocks = (int64_t)rt_ceil_div((uint64_t)all.d.in_c, (uint64_t)all.block);
    all.out_blocks = (int64_t)rt_ceil_div((uint64_t)all.d.out_c, (uint64_t)all.block);
    all.columns = (int64_t)rt_ceil_div((uint64_t)all.d.out_w, (uint64_t)all.tile);
    all.tiles = all.columns * (int64_t)rt_ceil_div((uint64_t)all.d.out_h, (uint64_t)all.tile);
    rt_divisible work = {.matrices = (uint64_t)all.d.batch,
                         .pixels = (uint64_t)all.tiles,
                         .most_pixels = tiles_per_turn(call, &all.d),
                         .least_pixels = all.kernels->pixels,
                         .blocks = (uint64_t)all.out_blocks,
                         .pass = all.kernels->blocks,
                         .start = TRANSFORM_WORK,
                         .weight = 1};
    all.turns = rt_divide(&work, rt_workers_count(workers));
    return all;
}

static share turn_share(const division *all, uint32_t turn, uint32_t worker) {
    rt_turn_range range = rt_division_range(&all->turns, turn);
    share own = {.image = range.matrix,
                 .first_tile = range.first_pixel,
                 .tiles = range.end_pixel - range.first_pixel,
                 .first_block = range.first_block,
                 .end_block = range.end_block};
    own.inputs = rt_workers_scratch(all->workers, worker);
    own.sums = own.inputs + all->points * all->in_blocks * own.tiles * all->block;
    own.floats = own.sums + all->points * all->kernels->blocks * own.tiles * all->block;
    return own;
}

/* --- turns --- */

/* domain = transformed inputs of all the share's tiles */
static void inputs_transform(const division *all, const share *own) {
    int64_t plane = (int64_t)all->d.in_h * all->d.in_w * all->block;
    const void *x = all->call->tensors[RT_CONV_X].data;
    bool in_bytes = all->call->codes.bytes & RT_BYTES_INPUT;
    rt_winograd_tile tile = {.step = all->in_blocks * own->tiles * all->block,
                             .zero = (float)all->call->codes.zero,
                             .height = all->d.in_h,
                             .width = all->d.in_w,
                             .domain = own->inputs};
    for (int64_t block = 0; block < all->in_blocks; block++) {
        int64_t offset = (own->image * all->in_blocks + block) * plane;
        if (in_bytes) {
            tile.x_bytes = (const uint8_t *)x + offset;
        } else {
            tile.x = (const float *)x + offset;
        }
        for (int64_t i = own->first_tile; i < own->first_tile + own->tiles; i++, tile.domain += all->block) {
            tile.top = i / all->columns * all->tile - all->d.pad_t;
            tile.left = i % all->columns * all->tile - all->d.pad_l;
            all->kernels->winograd_input[all->tile == 4](&tile);
        }
    }
}

/* The weights of one point, of `blocks` output blocks from `block` on, in floats. */
static const float *point_weights(const division *all, const share *own, int64_t point, int64_t block,
                                  uint32_t blocks) {
    const rt_cpu_call *call = all->call;
    int64_t depth = all->d.in_c * all->block, offset = (point * all->out_blocks + block) * depth;
    if (!call->codes.weight_bits) return rt_floats(&call->tensors[RT_CONV_W]) + offset;
    const uint16_t *halves = (const uint16_t *)call->tensors[RT_CONV_W].data + offset;
    call->tiles->halves_to_floats(halves, (uint64_t)(blocks * depth), own->floats);
    return own->floats;
}

/* The products of one point: `blocks` output blocks from `block` on, over all tiles of the share. */
static void point_products(const division *all, const share *own, int64_t point, int64_t block, uint32_t blocks) {
    const float *inputs = own->inputs + point * all->in_blocks * own->tiles * all->block;
    float *sums = own->sums + point * blocks * own->tiles * all->block;
    int64_t depth = all->d.in_c * all->block, width = all->kernels->pixels;
    rt_blocked_tile tile = {.zeros = zeros,
                            .taps = 1,
                            .channels = (uint32_t)all->d.in_c,
                            .plane = own->tiles * all->block,
                            .weights = point_weights(all, own, point, block, blocks),
                            .weights_stride = depth,
                            .blocks = blocks,
                            .bias = zeros,
                            .y_plane = own->tiles * all->block,
                            .a = -INFINITY,
                            .b = INFINITY};
    const void *rows[RT_BLOCKED_PIXELS];
    bool foresees = !all->call->codes.weight_bits && point + 1 < all->points;
    tile.rows = rows;
    for (int64_t first = 0, i = 0; first < own->tiles; first += width, i++) {
        tile.ahead = foresees && i < blocks ? (all->out_blocks + i) * depth : 0; /* the next point's */
        tile.pixels = (uint32_t)smaller((uint64_t)width, (uint64_t)(own->tiles - first));
        for (uint32_t p = 0; p < tile.pixels; p++) rows[p] = inputs + (first + p) * all->block;
        tile.y = sums + first * all->block;
        all->kernels->product(&tile);
    }
}

/* Outputs of all the share's tiles, for `blocks` output blocks from `block` on. */
static void outputs_transform(const division *all, const share *own, int64_t block, uint32_t blocks) {
    const rt_cpu_call *call = all->call;
    int64_t plane = (int64_t)all->d.out_h * all->d.out_w * all->block;
    rt_winograd_tile tile = {.step = blocks * own->tiles * all->block,
                             .height = all->d.out_h,
                             .width = all->d.out_w,
                             .domain = own->sums,
                             .activation = call->codes.activation,
                             .tiles = call->tiles,
                             .a = all->d.act_a,
                             .b = all->d.act_b};
    for (int64_t b = block; b < block + blocks; b++) {
        int64_t offset = (own->image * all->out_blocks + b) * plane;
        if (call->codes.bytes & RT_BYTES_OUTPUT) {
            tile.y_bytes = (uint8_t *)call->tensors[RT_CONV_Y].data + offset;
        } else {
            tile.y = rt_floats(&call->tensors[RT_CONV_Y]) + offset;
        }
        tile.bias = rt_floats(&call->tensors[RT_CONV_B]) + b * all->block;
        tile.residual = call->codes.residual ? rt_floats(&call->tensors[RT_CONV_RESIDUAL]) + offset : NULL;
        for (int64_t i = own->first_tile; i < own->first_tile + own->tiles; i++, tile.domain += all->block) {
            tile.top = i / all->columns * all->tile;
            tile.left = i % all->columns * all->tile;
            all->kernels->winograd_output[all->tile == 4](&tile);
        }
    }
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    share own = turn_share(all, turn, worker);
    inputs_transform(all, &own);
    int64_t all_blocks = own.end_block - own.first_block;
    int64_t passes = (int64_t)rt_ceil_div((uint64_t)all_blocks, all->kernels->blocks);
    for (int64_t pass = 0, block = own.first_block; pass < passes; pass++) {
        uint32_t blocks = (uint32_t)(all_blocks / passes + (pass < all_blocks % passes));
        for (int64_t point = 0; point < all->points; point++) point_products(all, &own, point, block, blocks);
        outputs_transform(all, &own, block, blocks);
        block += blocks;
    }
}

static void winograd_run(const rt_cpu_call *call, rt_workers *workers) {
    division all = divide(call, workers);
    rt_workers_run(workers, rt_division_turns(&all.turns), turn_run, &all);
}

const rt_cpu_operator rt_cpu_blocked_winograd = {
    RT_BLOCKED_WINOGRAD_ROW, .check = winograd_check, .run = winograd_run, .narrow_weights = RT_READS_HALVES};
const rt_cpu_operator rt_cpu_quantized_winograd = {
    RT_QUANTIZED_WINOGRAD_ROW, .check = quantized_check, .run = winograd_run};
