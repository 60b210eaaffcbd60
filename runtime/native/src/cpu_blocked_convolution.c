/* blocked_conv2d: direct convolution of blocked activations, or, where FIRST is 1, of a row-major NCHW input to a
 * blocked output. Padding is never stored: taps outside of the input read zeros.
 *
 * A turn is a range of output pixels of one image and group, with a range of output blocks. It collects the row
 * pointers of its pixels once; then weights pass over all its tiles, so many input channels at a time that they stay in
 * the cache, and the sums so far wait in the output.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "arithmetic.h"
#include "cpu_blocked.h"

/* The ints, in the order of the arguments; in_c and out_c are those of one group. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w, stride_h, stride_w, pad_t, pad_l, dil_h, dil_w,
        groups;
} conv_dims;

enum { X, W, B, RESIDUAL, Y };
/* The inputs of a turn, and the weights that pass over them at once, should stay in a core's caches. */
enum { INPUT_BYTES = 256 << 10, WEIGHT_BYTES = 48 << 10, MIN_TILES = 2, MAX_TILES = 64, TURNS_PER_WORKER = 3 };

static const float zeros[16];

/* A call with its division into turns. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    rt_workers *workers;
    conv_dims d;
    int64_t block;                         /* lanes of an output block */
    int64_t step;                          /* elements from one input pixel to the next */
    int64_t x_plane, y_plane;              /* elements of a plane */
    int64_t in_planes, out_blocks;         /* of a group */
    uint32_t taps, tap_channels;           /* as the tiles count them */
    int64_t chunk;                         /* channels of a tap that are summed at once */
    uint64_t pixels, pixels_per_turn;      /* of an image */
    uint64_t pixel_turns;                  /* of an image */
    uint64_t blocks_per_turn, block_turns; /* of a group */
} division;

/* What one turn computes. */
typedef struct {
    uint64_t image, group;
    uint64_t first_pixel, pixels, tiles;
    int64_t first_block, end_block;
    const float **rows;
} share;

static conv_dims dims_read(const rt_cpu_call *call) {
    conv_dims dims;
    memcpy(&dims, call->ints, sizeof dims);
    return dims;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Pixels of a turn whose inputs fill the cache, within bounds. */
static uint64_t pixels_per_turn(uint64_t channels) {
    uint64_t least = MIN_TILES * RT_BLOCKED_PIXELS, most = MAX_TILES * RT_BLOCKED_PIXELS;
    uint64_t pixels = INPUT_BYTES / sizeof(float) / channels;
    return pixels < least ? least : smaller(pixels, most);
}

/* Row pointers that a turn collects for each of its pixels: one for each tap, and for each channel of a row-major input. */
static uint64_t rows_of_pixel(const rt_cpu_call *call, const conv_dims *d) {
    uint64_t taps = rt_product((uint64_t)d->k_h, (uint64_t)d->k_w);
    return call->codes.first ? rt_product(taps, (uint64_t)d->in_c) : taps;
}

/* Groups must not share a block. */
static const char *sizes_check(const rt_cpu_call *call, const conv_dims *d) {
    const int32_t extents[] = {d->batch, d->in_h, d->in_w,     d->in_c,     d->out_h, d->out_w, d->out_c,
                               d->k_h,   d->k_w,  d->stride_h, d->stride_w, d->dil_h, d->dil_w, d->groups};
    const int32_t pads[] = {d->pad_t, d->pad_l};
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (!rt_all_at_least(extents, RT_COUNT(extents), 1) || !rt_all_at_least(pads, 2, 0))
        return "a size is out of range";
    int32_t block = (int32_t)call->codes.block;
    if (d->groups > 1 && (call->codes.first || d->in_c % block != 0 || d->out_c % block != 0))
        return "its groups are no whole blocks";
    return NULL;
}

static const char *conv_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    conv_dims d = dims_read(call);
    const rt_cpu_tensor *tensors = call->tensors;
    const char *problem = sizes_check(call, &d);
    if (problem != NULL) return problem;
    uint32_t block = call->codes.block;
    uint64_t groups = (uint64_t)d.groups, images = rt_product((uint64_t)d.batch, groups);
    uint64_t in_pixels = rt_product((uint64_t)d.in_h, (uint64_t)d.in_w);
    uint64_t pixels = rt_product((uint64_t)d.out_h, (uint64_t)d.out_w);
    uint64_t depth = rt_product3(d.k_h, d.k_w, d.in_c);
    uint64_t x = call->codes.first ? rt_product(rt_product((uint64_t)d.batch, (uint64_t)d.in_c), in_pixels)
                                   : rt_blocked_elements(images, (uint64_t)d.in_c, in_pixels, block);
    uint64_t y = rt_blocked_elements(images, (uint64_t)d.out_c, pixels, block);
    if (y / block > UINT32_MAX || depth > UINT32_MAX) return "too many pixels";
    if (!rt_flat_fits(&tensors[X], x)) return "the input exceeds its pool";
    if (!rt_flat_fits(&tensors[W], rt_blocked_elements(groups, (uint64_t)d.out_c, depth, block)))
        return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[B], rt_blocked_elements(groups, (uint64_t)d.out_c, 1, block)))
        return "the bias exceeds its pool";
    if (call->codes.residual && !rt_flat_fits(&tensors[RESIDUAL], y)) return "the residual exceeds its pool";
    if (!rt_flat_fits(&tensors[Y], y)) return "the output exceeds its pool";
    needs->work = rt_product(y, depth);
    uint64_t pointers = rt_product(pixels_per_turn((uint64_t)d.in_c) * RT_BLOCKED_PIXELS, rows_of_pixel(call, &d));
    needs->scratch_bytes = rt_product(pointers, sizeof(float *));
    return NULL;
}

/* --- division --- */

/* Divides by pixels first; blocks of channels are split only where that leaves workers without a turn. */
static void turns_divide(division *all) {
    const conv_dims *d = &all->d;
    uint64_t wanted = rt_workers_count(all->workers) > 1 ? rt_workers_count(all->workers) * TURNS_PER_WORKER : 1;
    all->pixels = (uint64_t)d->out_h * (uint64_t)d->out_w;
    all->pixel_turns = rt_ceil_div(all->pixels, pixels_per_turn((uint64_t)d->in_c));
    all->pixels_per_turn = rt_ceil_div(all->pixels, all->pixel_turns);
    all->pixel_turns = rt_ceil_div(all->pixels, all->pixels_per_turn);
    uint64_t tiles = rt_ceil_div((uint64_t)all->out_blocks, all->kernels->blocks);
    uint64_t others = all->pixel_turns * (uint64_t)d->batch * (uint64_t)d->groups;
    uint64_t splits = smaller(rt_ceil_div(wanted, others), tiles);
    all->blocks_per_turn = rt_ceil_div(tiles, splits) * all->kernels->blocks;
    all->block_turns = rt_ceil_div((uint64_t)all->out_blocks, all->blocks_per_turn);
}

static division divide(const rt_cpu_call *call, rt_workers *workers) {
    division all = {.call = call, .workers = workers, .d = dims_read(call), .block = call->codes.block};
    const conv_dims *d = &all.d;
    bool first = call->codes.first;
    all.kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    all.step = first ? 1 : all.block;
    all.x_plane = (int64_t)d->in_h * d->in_w * all.step;
    all.y_plane = (int64_t)d->out_h * d->out_w * all.block;
    all.in_planes = first ? d->in_c : (int64_t)rt_ceil_div((uint64_t)d->in_c, (uint64_t)all.block);
    all.out_blocks = (int64_t)rt_ceil_div((uint64_t)d->out_c, (uint64_t)all.block);
    all.taps = (uint32_t)rows_of_pixel(call, d);
    all.tap_channels = first ? 1 : (uint32_t)d->in_c;
    int64_t bytes = (int64_t)all.taps * all.kernels->blocks * all.block * all.block * (int64_t)sizeof(float);
    all.chunk = (WEIGHT_BYTES / bytes > 1 ? WEIGHT_BYTES / bytes : 1) * all.block;
    turns_divide(&all);
    return all;
}

/* The share of a turn: the image is the slowest index, then the group, the blocks, the pixels. */
static share turn_share(const division *all, uint32_t turn, uint32_t worker) {
    uint64_t part = turn % (all->pixel_turns * all->block_turns);
    uint64_t stack = turn / (all->pixel_turns * all->block_turns);
    share own = {.image = stack / (uint64_t)all->d.groups, .group = stack % (uint64_t)all->d.groups};
    own.first_pixel = part % all->pixel_turns * all->pixels_per_turn;
    own.pixels = smaller(all->pixels_per_turn, all->pixels - own.first_pixel);
    own.tiles = rt_ceil_div(own.pixels, all->kernels->pixels);
    own.first_block = (int64_t)(part / all->pixel_turns * all->blocks_per_turn);
    own.end_block = (int64_t)smaller((uint64_t)own.first_block + all->blocks_per_turn, (uint64_t)all->out_blocks);
    own.rows = rt_workers_scratch(all->workers, worker);
    return own;
}

/* The first pixel of a tile of a share; all have the same number of pixels, or one less. */
static uint64_t tile_start(const share *own, uint64_t tile) {
    return own->first_pixel + tile * (own->pixels / own->tiles) + smaller(tile, own->pixels % own->tiles);
}

/* --- row pointers --- */

/* Those of one output pixel, RT_BLOCKED_PIXELS apart. `x` is the group's first plane. */
static void pixel_rows_fill(const division *all, const float *x, int64_t row, int64_t column, const float **rows) {
    const conv_dims *d = &all->d;
    int64_t top = row * d->stride_h - d->pad_t, left = column * d->stride_w - d->pad_l;
    int64_t planes = all->call->codes.first ? all->in_planes : 1;
    for (int64_t i = 0; i < d->k_h; i++) {
        int64_t in_row = top + i * d->dil_h;
        bool row_inside = in_row >= 0 && in_row < d->in_h;
        for (int64_t j = 0; j < d->k_w; j++) {
            int64_t in_column = left + j * d->dil_w;
            bool inside = row_inside && in_column >= 0 && in_column < d->in_w;
            const float *source = inside ? x + (in_row * d->in_w + in_column) * all->step : zeros;
            for (int64_t p = 0; p < planes; p++, rows += RT_BLOCKED_PIXELS) {
                *rows = inside ? source + p * all->x_plane : zeros;
            }
        }
    }
}

/* Those of all tiles of a share. */
static void share_rows_fill(const division *all, const share *own) {
    uint64_t planes = (own->image * (uint64_t)all->d.groups + own->group) * (uint64_t)all->in_planes;
    const float *x = all->call->tensors[X].data + (int64_t)planes * all->x_plane;
    int64_t row = (int64_t)own->first_pixel / all->d.out_w, column = (int64_t)own->first_pixel % all->d.out_w;
    const float **rows = own->rows;
    for (uint64_t tile = 0; tile < own->tiles; tile++, rows += (uint64_t)all->taps * RT_BLOCKED_PIXELS) {
        uint64_t pixels = tile_start(own, tile + 1) - tile_start(own, tile);
        for (uint64_t p = 0; p < pixels; p++) {
            pixel_rows_fill(all, x, row, column, rows + p);
            if (++column == all->d.out_w) column = 0, row++;
        }
    }
}

/* --- turns --- */

/* The tile of some output blocks, for any pixels; all its input channels. `channel` of the tensors is the first of the
 * share's group. */
static rt_blocked_tile blocks_tile(const division *all, const share *own, int64_t block, uint32_t blocks) {
    const rt_cpu_call *call = all->call;
    int64_t depth = (int64_t)all->taps * all->tap_channels, first = (int64_t)own->group * all->out_blocks + block;
    int64_t plane = ((int64_t)own->image * all->d.groups * all->out_blocks + first) * all->y_plane;
    return (rt_blocked_tile){
        .zeros = zeros,
        .taps = all->taps,
        .plane = all->x_plane,
        .weights = call->tensors[W].data + first * depth * all->block,
        .tap_stride = all->tap_channels * all->block,
        .weights_stride = depth * all->block,
        .blocks = blocks,
        .bias = call->tensors[B].data + first * all->block,
        .residual = call->codes.residual ? call->tensors[RESIDUAL].data + plane : NULL,
        .y = call->tensors[Y].data + plane,
        .y_plane = all->y_plane,
        .activation = call->codes.activation,
        .a = call->floats[0],
        .b = call->floats[1],
    };
}

/* Makes a tile that sums only a chunk of the channels, from `first` on. */
static rt_blocked_tile chunk_tile(const division *all, const rt_blocked_tile *whole, int64_t first) {
    rt_blocked_tile tile = *whole;
    int64_t rest = all->tap_channels - first;
    tile.channels = (uint32_t)(rest < all->chunk ? rest : all->chunk);
    tile.weights += first * all->block;
    if (first > 0) tile.bias = NULL, tile.residual = NULL;
    if (rest > all->chunk) tile.activation = RT_ACTIVATION_CLAMP, tile.a = -INFINITY, tile.b = INFINITY;
    return tile;
}

/* Lets a chunk of the weights pass over all tiles of a share; `offset` is that of its first input plane. */
static void chunk_run(const division *all, const share *own, const rt_blocked_tile *chunk, int64_t offset) {
    const float **rows = own->rows;
    for (uint64_t i = 0; i < own->tiles; i++, rows += (uint64_t)all->taps * RT_BLOCKED_PIXELS) {
        rt_blocked_tile tile = *chunk;
        uint64_t first = tile_start(own, i);
        tile.rows = rows;
        tile.offset = offset;
        tile.pixels = (uint32_t)(tile_start(own, i + 1) - first);
        tile.y += (int64_t)first * all->block;
        if (tile.residual != NULL) tile.residual += (int64_t)first * all->block;
        all->kernels->product(&tile);
    }
}

/* Every block of the share over all its tiles, some at a time: as many each time, or one less. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    share own = turn_share(all, turn, worker);
    int64_t blocks = own.end_block - own.first_block;
    int64_t passes = (int64_t)rt_ceil_div((uint64_t)blocks, all->kernels->blocks);
    share_rows_fill(all, &own);
    for (int64_t pass = 0, block = own.first_block; pass < passes; pass++) {
        uint32_t count = (uint32_t)(blocks / passes + (pass < blocks % passes));
        rt_blocked_tile whole = blocks_tile(all, &own, block, count);
        for (int64_t channel = 0; channel < all->tap_channels; channel += all->chunk) {
            rt_blocked_tile chunk = chunk_tile(all, &whole, channel);
            chunk_run(all, &own, &chunk, channel / all->block * all->x_plane);
        }
        block += count;
    }
}

static void conv_run(const rt_cpu_call *call, rt_workers *workers) {
    division all = divide(call, workers);
    uint64_t stacks = (uint64_t)all.d.batch * (uint64_t)all.d.groups;
    rt_workers_run(workers, (uint32_t)(stacks * all.pixel_turns * all.block_turns), turn_run, &all);
}

const rt_cpu_operator rt_cpu_blocked_conv2d = {
    "blocked_conv2d", "fwwff", sizeof(conv_dims) / sizeof(int32_t), 2, conv_check, conv_run, NULL};
