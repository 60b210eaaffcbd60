/* How a direct convolution over blocked tensors is divided into turns, whatever its elements.
 *
 * A turn is a range of output pixels of one image and group, with a range of output blocks. It collects the row
 * pointers of its pixels once.
 */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "blocked_convolution.h"

/* The inputs of a turn should stay in a core's caches. */
enum { INPUT_ELEMENTS = 128 << 10, MIN_TILES = 2, MAX_TILES = 64, TURNS_PER_WORKER = 3 };

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Pixels of a turn whose inputs fill the cache, within bounds. */
static uint64_t pixels_per_turn(uint64_t channels) {
    uint64_t least = MIN_TILES * RT_BLOCKED_PIXELS, most = MAX_TILES * RT_BLOCKED_PIXELS;
    uint64_t pixels = INPUT_ELEMENTS / channels;
    return pixels < least ? least : smaller(pixels, most);
}

const char *rt_conv_sizes_check(const rt_cpu_call *call, const rt_conv_dims *d) {
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    int32_t block = (int32_t)call->codes.block;
    if (d->groups > 1 && (call->codes.first || d->in_c % block != 0 || d->out_c % block != 0))
        return "its groups are no whole blocks";
    return NULL;
}

uint64_t rt_conv_turn_bytes(const rt_conv_dims *d) {
    /* Tiles may be narrower than RT_BLOCKED_PIXELS, at worst by half. */
    uint64_t pixels = pixels_per_turn((uint64_t)d->in_c) * RT_BLOCKED_PIXELS;
    return rt_product(rt_product(pixels, rt_product3(d->k_h, d->k_w, 1)), sizeof(void *));
}

/* --- division --- */

/* Divides by pixels first; blocks of channels are split only where that leaves workers without a turn, and pixels again
 * where the blocks are too few for equal shares. */
static void divide(rt_conv_turns *all, uint64_t tile_pixels) {
    const rt_conv_dims *d = &all->d;
    uint64_t workers = rt_workers_count(all->workers), wanted = workers > 1 ? workers * TURNS_PER_WORKER : 1;
    all->pixels = (uint64_t)d->out_h * (uint64_t)d->out_w;
    uint64_t turns = rt_ceil_div(all->pixels, pixels_per_turn((uint64_t)d->in_c));
    all->passes = rt_ceil_div((uint64_t)all->out_blocks, all->tile_blocks);
    uint64_t most = all->passes * turns * (uint64_t)d->batch * (uint64_t)d->groups;
    if (turns > workers || (most < wanted && most % workers != 0)) turns = rt_ceil_div(turns, workers) * workers;
    turns = smaller(turns, rt_ceil_div(all->pixels, tile_pixels));
    all->pixels_per_turn = rt_ceil_div(all->pixels, turns);
    all->pixel_turns = rt_ceil_div(all->pixels, all->pixels_per_turn);
    uint64_t others = all->pixel_turns * (uint64_t)d->batch * (uint64_t)d->groups;
    all->block_turns = smaller(rt_ceil_div(wanted, others), all->passes);
}

rt_conv_turns rt_conv_turns_divide(const rt_cpu_call *call, rt_workers *workers, rt_conv_input x, uint32_t tile_pixels,
                                   uint32_t tile_blocks) {
    rt_conv_turns all = {.call = call, .workers = workers, .d = rt_blocked_conv2d_args_of(call), .input = x};
    const rt_conv_dims *d = &all.d;
    all.block = call->codes.block;
    all.tile_pixels = tile_pixels;
    all.tile_blocks = tile_blocks;
    all.x_plane = (int64_t)d->in_h * d->in_w * all.block;
    all.y_plane = (int64_t)d->out_h * d->out_w * all.block;
    all.x_pixel = all.y_pixel = all.block;
    all.in_blocks = (int64_t)rt_ceil_div((uint64_t)d->in_c, (uint64_t)all.block);
    all.out_blocks = (int64_t)rt_ceil_div((uint64_t)d->out_c, (uint64_t)all.block);
    all.taps = (int64_t)d->k_h * d->k_w;
    if (x.merges && d->groups == 1 && all.taps == 1 && all.x_plane == all.block && all.y_plane == all.block) {
        all.x_pixel = all.in_blocks * all.block;
        all.y_pixel = all.out_blocks * all.block;
        all.d.in_w = all.d.out_w = d->batch;
        all.d.batch = all.d.stride_w = 1;
    }
    divide(&all, tile_pixels);
    return all;
}

uint32_t rt_conv_turns_count(const rt_conv_turns *all) {
    return (uint32_t)((uint64_t)all->d.batch * (uint64_t)all->d.groups * all->pixel_turns * all->block_turns);
}

/* The first output block of a turn among those of its pixels: passes are dealt evenly. */
static int64_t turn_block(const rt_conv_turns *all, uint64_t turn) {
    uint64_t block = turn * all->passes / all->block_turns * all->tile_blocks;
    return (int64_t)smaller(block, (uint64_t)all->out_blocks);
}

/* --- row pointers --- */

/* Those of one output pixel, RT_BLOCKED_PIXELS apart; returns whether all taps are inside. `x` is the group's first plane. */
static bool pixel_rows_fill(const rt_conv_turns *all, const char *x, int64_t row, int64_t column, const void **rows) {
    const rt_conv_dims *d = &all->d;
    int64_t top = row * d->stride_h - d->pad_t, left = column * d->stride_w - d->pad_l;
    int64_t pixel = all->x_pixel * all->input.element_bytes;
    bool columns_inside = left >= 0 && left + (d->k_w - 1) * d->dil_w < d->in_w;
    for (int64_t i = 0; i < d->k_h; i++) {
        int64_t in_row = top + i * d->dil_h;
        bool row_inside = in_row >= 0 && in_row < d->in_h;
        const char *tap = x + (row_inside ? in_row * d->in_w + left : 0) * pixel;
        if (row_inside && columns_inside) {
            for (int64_t j = 0; j < d->k_w; j++, rows += RT_BLOCKED_PIXELS, tap += d->dil_w * pixel) *rows = tap;
            continue;
        }
        for (int64_t j = 0; j < d->k_w; j++, rows += RT_BLOCKED_PIXELS) {
            int64_t in_column = left + j * d->dil_w;
            bool inside = row_inside && in_column >= 0 && in_column < d->in_w;
            *rows = inside ? tap + j * d->dil_w * pixel : all->input.zeros;
        }
    }
    return columns_inside && top >= 0 && top + (d->k_h - 1) * d->dil_h < d->in_h;
}

/* Whether each output pixel reads the input pixel of its number alone. */
static bool is_pixelwise(const rt_conv_dims *d) {
    bool moves = d->stride_h != 1 || d->stride_w != 1 || d->pad_t != 0 || d->pad_l != 0;
    return d->k_h == 1 && d->k_w == 1 && !moves && d->in_h == d->out_h && d->in_w == d->out_w;
}

/* Those of all tiles of a share. */
static void share_rows_fill(const rt_conv_turns *all, const rt_conv_share *own) {
    int64_t plane = (own->image * all->d.groups + own->group) * all->in_blocks;
    int64_t pixel = all->x_pixel * all->input.element_bytes;
    const char *x = (const char *)all->input.x + plane * all->x_plane * all->input.element_bytes;
    int64_t row = own->first_pixel / all->d.out_w, column = own->first_pixel % all->d.out_w;
    const void **rows = own->rows;
    bool pixelwise = is_pixelwise(&all->d);
    const char *next = x + own->first_pixel * pixel;
    int64_t last = all->d.in_w - 1 - (all->d.k_w - 1) * all->d.dil_w + all->d.pad_l, step = all->d.stride_w * pixel;
    bool is_inside = false; /* the pixel before, in the same tile and row, and this one, too */
    for (int64_t tile = 0; tile < own->tiles; tile++, rows += all->taps * RT_BLOCKED_PIXELS) {
        int64_t pixels = own->width + (tile < own->wider);
        for (int64_t p = 0; pixelwise && p < pixels; p++, next += pixel) rows[p] = next;
        for (int64_t p = 0; !pixelwise && p < pixels; p++) {
            if (is_inside && p > 0 && column > 0 && column * all->d.stride_w <= last) {
                for (const void **at = rows + p; at < rows + all->taps * RT_BLOCKED_PIXELS; at += RT_BLOCKED_PIXELS)
                    *at = (const char *)at[-1] + step;
            } else {
                is_inside = pixel_rows_fill(all, x, row, column, rows + p);
            }
            if (++column == all->d.out_w) column = 0, row++;
        }
    }
}

rt_conv_share rt_conv_turn_share(const rt_conv_turns *all, uint32_t turn, uint32_t worker) {
    uint64_t part = turn % (all->pixel_turns * all->block_turns);
    int64_t stack = (int64_t)(turn / (all->pixel_turns * all->block_turns));
    rt_conv_share own = {.image = stack / all->d.groups, .group = stack % all->d.groups};
    uint64_t first_pixel = part % all->pixel_turns * all->pixels_per_turn;
    int64_t pixels = (int64_t)smaller(all->pixels_per_turn, all->pixels - first_pixel);
    own.first_pixel = (int64_t)first_pixel;
    own.tiles = (int64_t)rt_ceil_div((uint64_t)pixels, all->tile_pixels);
    own.width = pixels / own.tiles;
    own.wider = pixels % own.tiles;
    own.first_block = turn_block(all, part / all->pixel_turns);
    own.end_block = turn_block(all, part / all->pixel_turns + 1);
    own.rows = rt_workers_scratch(all->workers, worker);
    share_rows_fill(all, &own);
    return own;
}
