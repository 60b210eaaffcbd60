/* How a direct convolution over blocked tensors is divided into turns, whatever its elements.
 *
 * A turn is a range of output pixels of one image and group, with a range of output blocks. It collects the row
 * pointers of its pixels once.
 */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "blocked_convolution.h"

/* The inputs of a turn should stay in a core's caches. */
enum { INPUT_ELEMENTS = 128 << 10, MIN_TILES = 2, MAX_TILES = 64 };

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

static rt_division divide(const rt_conv_turns *all) {
    const rt_conv_dims *d = &all->d;
    rt_divisible work = {.matrices = (uint64_t)d->batch * (uint64_t)d->groups,
                         .pixels = (uint64_t)d->out_h * (uint64_t)d->out_w,
                         .most_pixels = pixels_per_turn((uint64_t)d->in_c),
                         .least_pixels = all->tile_pixels,
                         .blocks = (uint64_t)all->out_blocks,
                         .pass = all->tile_blocks,
                         .weight = 1};
    return rt_divide(&work, rt_workers_count(all->workers));
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
    all.turns = divide(&all);
    return all;
}

/* --- row pointers --- */

/* Those of one output pixel, RT_BLOCKED_PIXELS apart. `x` is the group's first plane. */
static void pixel_rows_fill(const rt_conv_turns *all, const char *x, int64_t row, int64_t column, const void **rows) {
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
}

/* Those of a tile of neighbours in a row, if all their taps are inside; returns whether they are. */
static bool inside_rows_fill(const rt_conv_turns *all, const char *x, int64_t row, int64_t column, int64_t pixels,
                             const void **rows) {
    const rt_conv_dims *d = &all->d;
    int64_t top = row * d->stride_h - d->pad_t, left = column * d->stride_w - d->pad_l;
    int64_t bottom = top + (d->k_h - 1) * d->dil_h, right = left + (pixels - 1) * d->stride_w + (d->k_w - 1) * d->dil_w;
    if (top < 0 || left < 0 || bottom >= d->in_h || right >= d->in_w || column + pixels > d->out_w) return false;
    int64_t pixel = all->x_pixel * all->input.element_bytes, step = d->stride_w * pixel;
    for (int64_t i = 0; i < d->k_h; i++) {
        uintptr_t tap = (uintptr_t)(x + ((top + i * d->dil_h) * d->in_w + left) * pixel);
        for (int64_t j = 0; j < d->k_w; j++, rows += RT_BLOCKED_PIXELS, tap += (uintptr_t)(d->dil_w * pixel)) {
            for (int64_t p = 0; p < RT_BLOCKED_PIXELS; p++) rows[p] = (const void *)(tap + (uintptr_t)(p * step));
        }
    }
    return true;
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
    for (int64_t tile = 0; tile < own->tiles; tile++, rows += all->taps * RT_BLOCKED_PIXELS) {
        int64_t pixels = own->width + (tile < own->wider);
        for (int64_t p = 0; pixelwise && p < pixels; p++, next += pixel) rows[p] = next;
        if (pixelwise) continue;
        bool are_inside = inside_rows_fill(all, x, row, column, pixels, rows);
        for (int64_t p = 0; p < pixels; p++) {
            if (!are_inside) pixel_rows_fill(all, x, row, column, rows + p);
            if (++column == all->d.out_w) column = 0, row++;
        }
    }
}

rt_conv_share rt_conv_turn_share(const rt_conv_turns *all, uint32_t turn, uint32_t worker) {
    rt_turn_range range = rt_division_range(&all->turns, turn);
    rt_conv_share own = {.image = range.matrix / all->d.groups,
                         .group = range.matrix % all->d.groups,
                         .first_pixel = range.first_pixel,
                         .first_block = range.first_block,
                         .end_block = range.end_block};
    int64_t pixels = range.end_pixel - range.first_pixel;
    own.tiles = (int64_t)rt_ceil_div((uint64_t)pixels, all->tile_pixels);
    own.width = pixels / own.tiles;
    own.wider = pixels % own.tiles;
    own.rows = rt_workers_scratch(all->workers, worker);
    share_rows_fill(all, &own);
    return own;
}
