/* The first layer of a network: a convolution of a row-major input, of few channels, to a blocked output. The input is
 * planes of pixels (NCHW), or one plane whose pixels have all channels (NHWC).
 *
 * A turn is a range of output rows of one image. It copies the input rows under them to the worker's memory, with the
 * padding; there each product's input lies at one offset from its pixel, whichever the pixel is. */
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "blocked_convolution.h"

enum { COPY_BYTES = 64 << 10, MIN_TURNS = 8 };

/* A call with its division into turns. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    rt_workers *workers;
    rt_conv_dims d;
    int64_t depth;
    int64_t planes, pixel; /* planes of the input, and elements of a pixel in one */
    rt_first_turns turns;
} division;

/* What one turn computes: the output rows, and what lies in the worker's memory. */
typedef struct {
    int64_t image, first_row, end_row;
    float *copy;
    int32_t *offsets;
} share;

/* Inputs under `outputs` outputs of one axis, UINT64_MAX where they overflow. */
static uint64_t inputs_under(uint64_t outputs, int32_t stride, int32_t taps, int32_t dilation) {
    uint64_t last = rt_sum(rt_product(outputs - 1, (uint64_t)stride), rt_product((uint64_t)taps - 1, (uint64_t)dilation));
    return rt_sum(last, 1);
}

rt_first_turns rt_first_turns_divide(const rt_conv_dims *d, uint64_t pixel_bytes) {
    const uint64_t columns = inputs_under((uint64_t)d->out_w, d->stride_w, d->k_w, d->dil_w);
    const uint64_t row_bytes = rt_product(columns, pixel_bytes);
    uint64_t outputs = rt_ceil_div((uint64_t)d->out_h, MIN_TURNS), rows = inputs_under(outputs, d->stride_h, d->k_h, d->dil_h);
    while (outputs > 1 && rt_product(rows, row_bytes) > COPY_BYTES) { /* workers find enough turns, too */
        outputs = (outputs + 1) / 2;
        rows = inputs_under(outputs, d->stride_h, d->k_h, d->dil_h);
    }
    return (rt_first_turns){(int64_t)outputs, (int64_t)rt_ceil_div((uint64_t)d->out_h, outputs), rows, columns};
}

static rt_first_turns divide(const rt_conv_dims *d) { return rt_first_turns_divide(d, rt_product((uint64_t)d->in_c, sizeof(float))); }

/* Elements of a turn's copy, UINT64_MAX where they overflow. */
static uint64_t copy_elements(const rt_conv_dims *d, const rt_first_turns *turns) {
    return rt_product((uint64_t)d->in_c, rt_product(turns->rows, turns->columns));
}

const char *rt_blocked_first_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    uint64_t depth = rt_product3(d.k_h, d.k_w, d.in_c);
    uint64_t x = rt_product(rt_product((uint64_t)d.batch, (uint64_t)d.in_c), rt_product((uint64_t)d.in_h, (uint64_t)d.in_w));
    if (!rt_flat_fits(&call->tensors[RT_CONV_X], x)) return "the input exceeds its pool";
    const char *problem = rt_conv_tensors_check(call, &d, depth, rt_conv_weights(call, &d, depth), needs);
    if (problem != NULL) return problem;
    const rt_first_turns turns = divide(&d);
    uint64_t copied = copy_elements(&d, &turns);
    if (copied > INT32_MAX) return "its window is too large";
    needs->scratch_bytes = (copied + depth) * sizeof(float);
    return NULL;
}

/* --- turns --- */

/* Copies one row of a plane, zeros outside of it. */
static void row_copy(const division *all, const float *x, float *target) {
    int64_t columns = (int64_t)all->turns.columns, before = all->d.pad_l < columns ? all->d.pad_l : columns;
    int64_t rest = columns - before, count = rest < all->d.in_w ? rest : all->d.in_w;
    size_t pixel_bytes = (size_t)all->pixel * sizeof *target;
    memset(target, 0, (size_t)before * pixel_bytes);
    memcpy(target + before * all->pixel, x, (size_t)count * pixel_bytes);
    memset(target + (before + count) * all->pixel, 0, (size_t)(rest - count) * pixel_bytes);
}

/* All input rows under the share, plane by plane. */
static void inputs_copy(const division *all, const share *own) {
    const rt_conv_dims *d = &all->d;
    int64_t x_row = d->in_w * all->pixel, row_elements = (int64_t)all->turns.columns * all->pixel;
    const float *x = rt_floats(&all->call->tensors[RT_CONV_X]) + own->image * all->planes * d->in_h * x_row;
    float *target = own->copy;
    int64_t top = own->first_row * d->stride_h - d->pad_t;
    for (int64_t plane = 0; plane < all->planes; plane++, x += d->in_h * x_row) {
        for (int64_t row = top; row < top + (int64_t)all->turns.rows; row++, target += row_elements) {
            if (row >= 0 && row < d->in_h) {
                row_copy(all, x + row * x_row, target);
            } else {
                memset(target, 0, (size_t)row_elements * sizeof *target);
            }
        }
    }
}

/* Where each product's input lies in the copy, from that of the pixel's first tap: in the order of the weights. */
static void offsets_fill(const division *all, int32_t *offsets) {
    const rt_conv_dims *d = &all->d;
    int64_t columns = (int64_t)all->turns.columns;
    int64_t channel = all->planes > 1 ? (int64_t)all->turns.rows * columns : 1;
    for (int64_t i = 0; i < d->k_h; i++) {
        for (int64_t j = 0; j < d->k_w; j++) {
            for (int64_t c = 0; c < d->in_c; c++) {
                *offsets++ = (int32_t)(c * channel + (i * d->dil_h * columns + j * d->dil_w) * all->pixel);
            }
        }
    }
}

/* One tile of a row of outputs. `whole` is at the first pixel of the image. */
static void tile_run(const division *all, const share *own, const rt_blocked_tile *whole, int64_t row, int64_t column) {
    const void *rows[2 * RT_BLOCKED_PIXELS];
    rt_blocked_tile tile = *whole;
    int64_t offset = (row * all->d.out_w + column) * all->call->codes.block;
    const float *x = own->copy + (row - own->first_row) * all->d.stride_h * (int64_t)all->turns.columns * all->pixel;
    for (uint32_t p = 0; p < tile.pixels; p++) rows[p] = x + (column + p) * all->d.stride_w * all->pixel;
    tile.rows = rows;
    tile.y += offset;
    if (tile.residual != NULL) tile.residual += offset;
    all->kernels->first(&tile);
}

/* Pixels of the next tile of a row, of which `left` are to be computed. */
static int64_t tile_pixels(const division *all, uint32_t blocks, int64_t left) {
    int64_t width = all->d.out_w, least = all->kernels->pixels;
    int64_t most = 2 * blocks <= all->kernels->blocks ? all->kernels->first_pixels : least;
    return width >= most && left > least ? most : width >= least ? least : 1;
}

/* One row of outputs in whole tiles, of which the last may overlap the one before; a short row pixel by pixel. */
static void row_run(const division *all, const share *own, rt_blocked_tile *tile, int64_t row) {
    int64_t width = all->d.out_w;
    for (int64_t column = 0; column < width; column += tile->pixels) {
        tile->pixels = (uint32_t)tile_pixels(all, tile->blocks, width - column);
        tile_run(all, own, tile, row, column + tile->pixels <= width ? column : width - tile->pixels);
    }
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    share own = {.image = turn / all->turns.turns_per_image};
    own.first_row = turn % all->turns.turns_per_image * all->turns.rows_per_turn;
    int64_t end = own.first_row + all->turns.rows_per_turn;
    own.end_row = end < all->d.out_h ? end : all->d.out_h;
    own.copy = rt_workers_scratch(all->workers, worker);
    own.offsets = (int32_t *)(void *)(own.copy + copy_elements(&all->d, &all->turns));
    inputs_copy(all, &own);
    offsets_fill(all, own.offsets);
    int64_t blocks = (int64_t)rt_ceil_div((uint64_t)all->d.out_c, all->call->codes.block);
    for (int64_t block = 0; block < blocks; block += all->kernels->blocks) {
        rt_blocked_tile whole = rt_conv_tile(all->call, &all->d, own.image, block, all->depth);
        whole.taps = (uint32_t)all->depth;
        whole.offsets = own.offsets;
        whole.blocks = (uint32_t)(blocks - block < all->kernels->blocks ? blocks - block : all->kernels->blocks);
        rt_blocked_tile tile = rt_conv_without_function(whole);
        for (int64_t row = own.first_row; row < own.end_row; row++) row_run(all, &own, &tile, row);
        rt_conv_apply(&whole, own.first_row * all->d.out_w, (own.end_row - own.first_row) * all->d.out_w,
                      all->call->codes.block);
    }
}

void rt_blocked_first_run(const rt_cpu_call *call, rt_workers *workers) {
    division all = {.call = call, .workers = workers, .d = rt_blocked_conv2d_args_of(call)};
    all.kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    all.depth = (int64_t)rt_product3(all.d.k_h, all.d.k_w, all.d.in_c);
    all.pixel = call->codes.first == RT_FIRST_NHWC ? all.d.in_c : 1;
    all.planes = all.d.in_c / all.pixel;
    all.turns = divide(&all.d);
    rt_workers_run(workers, (uint32_t)(all.d.batch * all.turns.turns_per_image), turn_run, &all);
}
