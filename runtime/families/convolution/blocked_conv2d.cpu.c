/* blocked_conv2d: direct convolution of blocked activations. Padding is never stored: taps outside of the input read
 * zeros. A row-major input is blocked_first.cpu.c's.
 *
 * A turn is a range of output pixels of one image and group, with a range of output blocks. It collects the row
 * pointers of its pixels once; then weights pass over all its tiles, so many input channels at a time that they stay in
 * the cache, and the sums so far wait in the output.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "blocked_convolution.h"

/* The inputs of a turn, and the weights that pass over them at once, should stay in a core's caches. */
enum { INPUT_BYTES = 512 << 10, WEIGHT_BYTES = 48 << 10, MIN_TILES = 2, MAX_TILES = 64, TURNS_PER_WORKER = 3 };

static const float zeros[16];

/* A call with its division into turns. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    rt_workers *workers;
    rt_conv_dims d;
    int64_t block;                         /* lanes */
    int64_t x_plane;                       /* elements of a plane */
    int64_t in_blocks, out_blocks;         /* of a group */
    int64_t taps, chunk;                   /* chunk: channels of a tap that are summed at once */
    uint64_t pixels, pixels_per_turn;      /* of an image */
    uint64_t pixel_turns;                  /* of an image */
    uint64_t passes, block_turns;          /* of a group; a pass: as many output blocks as a tile has */
} division;

/* What one turn computes. Its tiles have `width` pixels, the first `wider` of them one more. */
typedef struct {
    int64_t image, group;
    int64_t first_pixel, tiles, width, wider;
    int64_t first_block, end_block;
    const float **rows;
} share;

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Pixels of a turn whose inputs fill the cache, within bounds. */
static uint64_t pixels_per_turn(uint64_t channels) {
    uint64_t least = MIN_TILES * RT_BLOCKED_PIXELS, most = MAX_TILES * RT_BLOCKED_PIXELS;
    uint64_t pixels = INPUT_BYTES / sizeof(float) / channels;
    return pixels < least ? least : smaller(pixels, most);
}

/* Groups must not share a block. */
static const char *sizes_check(const rt_cpu_call *call, const rt_conv_dims *d) {
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    int32_t block = (int32_t)call->codes.block;
    if (d->groups > 1 && (call->codes.first || d->in_c % block != 0 || d->out_c % block != 0))
        return "its groups are no whole blocks";
    return NULL;
}

static const char *conv_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    const char *problem = sizes_check(call, &d);
    if (problem != NULL) return problem;
    if (call->codes.first) return rt_blocked_first_check(call, needs);
    uint64_t images = rt_product((uint64_t)d.batch, (uint64_t)d.groups);
    uint64_t pixels = rt_product((uint64_t)d.in_h, (uint64_t)d.in_w);
    uint64_t x = rt_blocked_elements(images, (uint64_t)d.in_c, pixels, call->codes.block);
    if (!rt_flat_fits(&call->tensors[RT_CONV_X], x)) return "the input exceeds its pool";
    problem = rt_conv_tensors_check(call, &d, rt_product3(d.k_h, d.k_w, d.in_c), needs);
    if (problem != NULL) return problem;
    /* Tiles may be narrower than RT_BLOCKED_PIXELS, at worst by half. */
    uint64_t pointers = rt_product(pixels_per_turn((uint64_t)d.in_c) * RT_BLOCKED_PIXELS, rt_product3(d.k_h, d.k_w, 1));
    needs->scratch_bytes = rt_product(pointers, sizeof(float *));
    return NULL;
}

/* --- division --- */

/* Divides by pixels first; blocks of channels are split only where that leaves workers without a turn, and pixels again
 * where the blocks are too few for equal shares. */
static void turns_divide(division *all) {
    const rt_conv_dims *d = &all->d;
    uint64_t workers = rt_workers_count(all->workers), wanted = workers > 1 ? workers * TURNS_PER_WORKER : 1;
    all->pixels = (uint64_t)d->out_h * (uint64_t)d->out_w;
    uint64_t turns = rt_ceil_div(all->pixels, pixels_per_turn((uint64_t)d->in_c));
    all->passes = rt_ceil_div((uint64_t)all->out_blocks, all->kernels->blocks);
    uint64_t most = all->passes * turns * (uint64_t)d->batch * (uint64_t)d->groups;
    if (turns > workers || (most < wanted && most % workers != 0)) turns = rt_ceil_div(turns, workers) * workers;
    turns = smaller(turns, rt_ceil_div(all->pixels, all->kernels->pixels));
    all->pixels_per_turn = rt_ceil_div(all->pixels, turns);
    all->pixel_turns = rt_ceil_div(all->pixels, all->pixels_per_turn);
    uint64_t others = all->pixel_turns * (uint64_t)d->batch * (uint64_t)d->groups;
    all->block_turns = smaller(rt_ceil_div(wanted, others), all->passes);
}

/* The first output block of a turn among those of its pixels: passes are dealt evenly. */
static int64_t turn_block(const division *all, uint64_t turn) {
    uint64_t block = turn * all->passes / all->block_turns * all->kernels->blocks;
    return (int64_t)smaller(block, (uint64_t)all->out_blocks);
}

static division divide(const rt_cpu_call *call, rt_workers *workers) {
    division all = {.call = call, .workers = workers, .d = rt_blocked_conv2d_args_of(call), .block = call->codes.block};
    const rt_conv_dims *d = &all.d;
    all.kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    all.x_plane = (int64_t)d->in_h * d->in_w * all.block;
    all.in_blocks = (int64_t)rt_ceil_div((uint64_t)d->in_c, (uint64_t)all.block);
    all.out_blocks = (int64_t)rt_ceil_div((uint64_t)d->out_c, (uint64_t)all.block);
    all.taps = (int64_t)d->k_h * d->k_w;
    int64_t bytes = all.taps * all.kernels->blocks * all.block * all.block * (int64_t)sizeof(float);
    all.chunk = (WEIGHT_BYTES / bytes > 1 ? WEIGHT_BYTES / bytes : 1) * all.block;
    turns_divide(&all);
    return all;
}

/* The share of a turn: the image is the slowest index, then the group, the blocks, the pixels. */
static share turn_share(const division *all, uint32_t turn, uint32_t worker) {
    uint64_t part = turn % (all->pixel_turns * all->block_turns);
    int64_t stack = (int64_t)(turn / (all->pixel_turns * all->block_turns));
    share own = {.image = stack / all->d.groups, .group = stack % all->d.groups};
    uint64_t first_pixel = part % all->pixel_turns * all->pixels_per_turn;
    int64_t pixels = (int64_t)smaller(all->pixels_per_turn, all->pixels - first_pixel);
    own.first_pixel = (int64_t)first_pixel;
    own.tiles = (int64_t)rt_ceil_div((uint64_t)pixels, all->kernels->pixels);
    own.width = pixels / own.tiles;
    own.wider = pixels % own.tiles;
    own.first_block = turn_block(all, part / all->pixel_turns);
    own.end_block = turn_block(all, part / all->pixel_turns + 1);
    own.rows = rt_workers_scratch(all->workers, worker);
    return own;
}

/* --- row pointers --- */

/* Those of one output pixel, RT_BLOCKED_PIXELS apart. `x` is the group's first plane. */
static void pixel_rows_fill(const division *all, const float *x, int64_t row, int64_t column, const float **rows) {
    const rt_conv_dims *d = &all->d;
    int64_t top = row * d->stride_h - d->pad_t, left = column * d->stride_w - d->pad_l;
    for (int64_t i = 0; i < d->k_h; i++) {
        int64_t in_row = top + i * d->dil_h;
        bool row_inside = in_row >= 0 && in_row < d->in_h;
        for (int64_t j = 0; j < d->k_w; j++, rows += RT_BLOCKED_PIXELS) {
            int64_t in_column = left + j * d->dil_w;
            bool inside = row_inside && in_column >= 0 && in_column < d->in_w;
            *rows = inside ? x + (in_row * d->in_w + in_column) * all->block : zeros;
        }
    }
}

/* Those of all tiles of a share. */
static void share_rows_fill(const division *all, const share *own) {
    int64_t plane = (own->image * all->d.groups + own->group) * all->in_blocks;
    const float *x = rt_floats(&all->call->tensors[RT_CONV_X]) + plane * all->x_plane;
    int64_t row = own->first_pixel / all->d.out_w, column = own->first_pixel % all->d.out_w;
    const float **rows = own->rows;
    for (int64_t tile = 0; tile < own->tiles; tile++, rows += all->taps * RT_BLOCKED_PIXELS) {
        for (int64_t p = 0; p < own->width + (tile < own->wider); p++) {
            pixel_rows_fill(all, x, row, column, rows + p);
            if (++column == all->d.out_w) column = 0, row++;
        }
    }
}

/* --- turns --- */

/* Makes a tile that sums only a chunk of the channels, from `first` on. */
static rt_blocked_tile chunk_tile(const division *all, const rt_blocked_tile *whole, int64_t first) {
    rt_blocked_tile tile = *whole;
    int64_t rest = all->d.in_c - first;
    tile.channels = (uint32_t)(rest < all->chunk ? rest : all->chunk);
    tile.offset = first / all->block * all->x_plane;
    tile.weights += first * all->block;
    if (first > 0) tile.bias = NULL, tile.residual = NULL;
    if (rest > all->chunk) tile.activation = RT_UNARY_CLAMP, tile.a = -INFINITY, tile.b = INFINITY;
    return tile;
}

/* Lets a chunk of the weights pass over all tiles of a share. */
static void chunk_run(const division *all, const share *own, rt_blocked_tile tile) {
    tile.rows = own->rows;
    tile.y += own->first_pixel * all->block;
    if (tile.residual != NULL) tile.residual += own->first_pixel * all->block;
    for (int64_t i = 0; i < own->tiles; i++, tile.rows += all->taps * RT_BLOCKED_PIXELS) {
        tile.pixels = (uint32_t)(own->width + (i < own->wider));
        all->kernels->product(&tile);
        tile.y += tile.pixels * all->block;
        if (tile.residual != NULL) tile.residual += tile.pixels * all->block;
    }
}

/* Every block of the share over all its tiles, some at a time: as many each time, or one less. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    share own = turn_share(all, turn, worker);
    int64_t blocks = own.end_block - own.first_block;
    int64_t passes = (int64_t)rt_ceil_div((uint64_t)blocks, all->kernels->blocks);
    share_rows_fill(all, &own);
    for (int64_t pass = 0, block = own.first_block + own.group * all->out_blocks; pass < passes; pass++) {
        rt_blocked_tile whole = rt_conv_tile(all->call, &all->d, own.image, block, all->taps * all->d.in_c);
        whole.zeros = zeros;
        whole.taps = (uint32_t)all->taps;
        whole.plane = all->x_plane;
        whole.tap_stride = all->d.in_c * all->block;
        whole.blocks = (uint32_t)(blocks / passes + (pass < blocks % passes));
        for (int64_t channel = 0; channel < all->d.in_c; channel += all->chunk) {
            chunk_run(all, &own, chunk_tile(all, &whole, channel));
        }
        block += whole.blocks;
    }
}

static void conv_run(const rt_cpu_call *call, rt_workers *workers) {
    if (call->codes.first) {
        rt_blocked_first_run(call, workers);
        return;
    }
    division all = divide(call, workers);
    uint64_t stacks = (uint64_t)all.d.batch * (uint64_t)all.d.groups;
    rt_workers_run(workers, (uint32_t)(stacks * all.pixel_turns * all.block_turns), turn_run, &all);
}

const rt_cpu_operator rt_cpu_blocked_conv2d = {
    RT_BLOCKED_CONV2D_ROW, .check = conv_check, .run = conv_run};
