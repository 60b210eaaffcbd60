/* quantized_conv2d with FIRST: the first layer of a network. Its input is a row-major image in floats, of four channels at
 * most, which a turn rounds to quads, the bytes of a pixel; taps are the quads of some neighbours in a row: of all taps
 * there, unless the window is dilated. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "quantized_convolution.h"

enum { X = RT_QUANTIZED_CONV2D_X, W = RT_QUANTIZED_CONV2D_W };

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    const rt_quantized_kernels *kernels;
    const rt_blocked_kernels *rounding;
    rt_workers *workers;
    rt_quantized_conv2d_args d;
    rt_first_turns turns;
    rt_quantized_end end; /* at the tensors' begin */
    int64_t blocks;
} first_layer;

static uint64_t taps_bytes(const rt_conv_dims *d) {
    return rt_product(rt_product3(d->k_h, d->k_w, RT_BLOCKED_PIXELS), sizeof(void *));
}

const char *rt_quantized_first_check(const rt_cpu_call *call, const rt_conv_dims *d, rt_cpu_needs *needs) {
    const float step = rt_quantized_conv2d_args_of(call).step;
    uint64_t x = rt_product(rt_product3(d->batch, d->in_c, d->in_h), (uint64_t)d->in_w);
    if (d->in_c > RT_QUAD) return "its image has more than four channels";
    if (!(step > 0.0f && step < INFINITY)) return "its step is no positive number";
    if (!rt_quantized_fits(&call->tensors[X], x, false)) return "the input exceeds its pool";
    const rt_first_turns turns = rt_first_turns_divide(d, RT_QUAD);
    uint64_t quads = rt_product(rt_product(turns.rows, turns.columns), RT_QUAD);
    needs->scratch_bytes = rt_sum(taps_bytes(d), rt_sum(quads, call->codes.block)); /* the last block is read whole */
    return needs->scratch_bytes > INT32_MAX ? "its window is out of range" : NULL;
}

/* Rounds the rows of an image from `top` on. */
static void quads_fill(const first_layer *all, int64_t image, int64_t top, uint32_t *quads) {
    const rt_quantized_conv2d_args *d = &all->d;
    const bool is_nhwc = all->call->codes.first == RT_FIRST_NHWC;
    const int64_t area = (int64_t)d->in_h * d->in_w, line = (int64_t)d->in_w * (is_nhwc ? d->in_c : 1);
    const int64_t columns = (int64_t)all->turns.columns, before = d->pad_l < columns ? d->pad_l : columns;
    const int64_t count = columns - before < d->in_w ? columns - before : d->in_w;
    const float *x = rt_floats(&all->call->tensors[X]) + image * d->in_c * area;
    for (int64_t row = top; row < top + (int64_t)all->turns.rows; row++, quads += columns) {
        memset(quads, (int)all->call->codes.zero, (size_t)columns * sizeof *quads);
        if (row < 0 || row >= d->in_h) continue;
        all->rounding->quads(x + row * line, is_nhwc ? 0 : area, d->in_c, 1.0f / d->step, (int32_t)all->call->codes.zero,
                             count, quads + before);
    }
}

/* Row pointers of a tile of neighbours, the first tap of which lies at `x`. */
static void quad_rows_fill(const first_layer *all, const uint32_t *x, const void **rows) {
    const rt_quantized_conv2d_args *d = &all->d;
    const int64_t apart = d->dil_w == 1 ? d->k_w : 1;
    for (int64_t i = 0; i < d->k_h; i++) {
        const uint32_t *line = x + i * d->dil_h * (int64_t)all->turns.columns;
        for (int64_t j = 0; j < d->k_w; j += apart, rows += RT_BLOCKED_PIXELS) {
            uintptr_t quad = (uintptr_t)(line + j * d->dil_w);
            for (int p = 0; p < RT_BLOCKED_PIXELS; p++, quad += (uintptr_t)d->stride_w * RT_QUAD) rows[p] = (const void *)quad;
        }
    }
}

/* A tile at an image's first pixel, with all blocks that are computed at once from one on. */
static rt_quantized_tile first_tile(const first_layer *all, int64_t image, int64_t block) {
    const rt_quantized_conv2d_args *d = &all->d;
    const int64_t lanes = all->call->codes.block, taps = (int64_t)d->k_h * d->k_w, rest = all->blocks - block;
    rt_quantized_tile tile = {.plane = lanes, .y_pixel = lanes, .signed_bias = all->blocks * lanes};
    tile.taps = (uint32_t)(d->dil_w == 1 ? d->k_h : taps);
    tile.channels = (uint32_t)(taps / tile.taps * RT_QUAD);
    tile.y_plane = (int64_t)d->out_h * d->out_w * lanes;
    tile.weights_stride = taps * RT_QUAD * lanes;
    tile.weights = (const int8_t *)all->call->tensors[W].data + block * tile.weights_stride;
    tile.blocks = rest < all->kernels->blocks ? (uint32_t)rest : all->kernels->blocks;
    tile.end = rt_quantized_end_move(all->end, block * lanes, (image * all->blocks + block) * tile.y_plane);
    return tile;
}

static void first_turn(const void *context, uint32_t turn, uint32_t worker) {
    const first_layer *all = context;
    const rt_quantized_conv2d_args *d = &all->d;
    const rt_first_turns *turns = &all->turns;
    const int64_t image = turn / turns->turns_per_image, first = turn % turns->turns_per_image * turns->rows_per_turn;
    const int64_t rest = d->out_h - first, count = rest < turns->rows_per_turn ? rest : turns->rows_per_turn;
    const int64_t tiles = (int64_t)rt_ceil_div((uint64_t)d->out_w, all->kernels->pixels), lanes = all->call->codes.block;
    const int64_t width = d->out_w / tiles, wider = d->out_w % tiles;
    const void **rows = rt_workers_scratch(all->workers, worker);
    uint32_t *quads = (uint32_t *)(void *)(rows + (int64_t)d->k_h * d->k_w * RT_BLOCKED_PIXELS);
    quads_fill(all, image, first * d->stride_h - d->pad_t, quads);
    for (int64_t block = 0; block < all->blocks; block += all->kernels->blocks) {
        rt_quantized_tile tile = first_tile(all, image, block);
        tile.rows = rows;
        tile.end = rt_quantized_end_move(tile.end, 0, first * d->out_w * lanes);
        for (int64_t row = 0; row < count; row++) {
            const uint32_t *x = quads + row * d->stride_h * (int64_t)turns->columns;
            for (int64_t i = 0; i < tiles; i++, x += tile.pixels * d->stride_w) {
                tile.pixels = (uint32_t)(width + (i < wider));
                quad_rows_fill(all, x, rows);
                all->kernels->product(&tile);
                tile.end = rt_quantized_end_move(tile.end, 0, tile.pixels * lanes);
            }
        }
    }
}

void rt_quantized_first_run(const rt_cpu_call *call, rt_workers *workers) {
    const rt_conv_dims sizes = rt_blocked_conv2d_args_of(call);
    first_layer all = {
        .call = call,
        .kernels = rt_quantized_kernels_of(call->tiles, call->codes.block, call->codes.bytes),
        .rounding = rt_blocked_kernels_of(call->tiles, call->codes.block),
        .workers = workers,
        .d = rt_quantized_conv2d_args_of(call),
        .turns = rt_first_turns_divide(&sizes, RT_QUAD),
        .blocks = (int64_t)rt_ceil_div((uint64_t)sizes.out_c, call->codes.block),
    };
    all.end = rt_quantized_end_of(call, all.blocks * call->codes.block, 0, all.d.act_a, all.d.act_b, all.d.residual_scale);
    rt_workers_run(workers, (uint32_t)(sizes.batch * all.turns.turns_per_image), first_turn, &all);
}
