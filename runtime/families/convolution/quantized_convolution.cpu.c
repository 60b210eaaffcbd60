/* quantized_conv2d and quantized_depthwise: blocked_conv2d and blocked_depthwise of eight bits (cpu_quantized.h). Padding
 * is the zero point ZERO; BYTES says what of output and residual lies in bytes, the rest lies in floats. `b` has the
 * biases for sums over u, then those for sums over u - 128; both have the zero point in them. With FIRST the input is a
 * row-major image in floats, of four channels at most, which it rounds to bytes itself. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../../native/src/cpu/cpu_quantized.h"
#include "../../native/src/system/arithmetic.h"
#include "blocked_convolution.h"

enum {
    X = RT_QUANTIZED_CONV2D_X,
    W = RT_QUANTIZED_CONV2D_W,
    SCALES = RT_QUANTIZED_CONV2D_SCALES,
    B = RT_QUANTIZED_CONV2D_B,
    RESIDUAL = RT_QUANTIZED_CONV2D_RESIDUAL,
    Y = RT_QUANTIZED_CONV2D_Y
};
_Static_assert((int)RT_QUANTIZED_DEPTHWISE_Y == (int)Y, "both operators have the same tensors");

enum { WEIGHT_BYTES = 384 << 10, GROUP = 4 };

/* Products of an output whose sum fits 31 bits. */
enum { MOST_PRODUCTS = INT32_MAX / (255 * 128) };

/* A call with its division into turns. */
typedef struct {
    rt_conv_turns turns;
    const rt_quantized_kernels *kernels;
    rt_quantized_end end; /* at the tensors' begin */
    int64_t lanes;        /* output lanes of all groups */
} division;

/* What all turns of a first layer share. The image is rounded to quads, the bytes of a pixel; taps are the quads of some
 * neighbours in a row: of all taps there, unless the window is dilated. */
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

/* What all turns of a depthwise convolution share. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    const rt_quantized_kernels *bytes;
    rt_workers *workers;
    rt_blocked_window window;
    rt_plane_turns turns;
    rt_quantized_end end; /* at the tensors' begin */
    uint64_t padded_bytes; /* a worker's scratch: padded rows, sums of an output row, weights as floats */
    int64_t blocks;
} job;

/* --- checks --- */

/* Whether so many elements of bytes or floats lie within a tensor. */
static bool fits(const rt_cpu_tensor *tensor, uint64_t elements, bool is_bytes) {
    if (is_bytes) return rt_flat_fits(tensor, elements);
    return tensor->offset % sizeof(float) == 0 && rt_flat_fits(tensor, rt_product(elements, sizeof(float)));
}

/* `x`, `y`, `weights`: elements; `channels`: lanes of the output; `a`, `b`: of the activation. */
static const char *tensors_check(const rt_cpu_call *call, uint64_t x, uint64_t y, uint64_t weights, uint64_t channels,
                                 float a, float b) {
    const rt_cpu_tensor *tensors = call->tensors;
    uint32_t bytes = call->codes.bytes;
    if (y / call->codes.block > UINT32_MAX) return "too many pixels";
    if (!rt_flat_fits(&tensors[X], x)) return "the input exceeds its pool";
    if (!rt_flat_fits(&tensors[W], weights)) return "the weights exceed their pool";
    bool is_fixed = bytes & RT_BYTES_FIXED;
    if (is_fixed && !(bytes & RT_BYTES_OUTPUT)) return "fixed point rounds to bytes";
    if (!rt_flat_fits(&tensors[SCALES], rt_product(is_fixed ? 4 : 1, channels))) return "the scales exceed their pool";
    if (!rt_flat_fits(&tensors[B], rt_product(2, channels))) return "the bias exceeds its pool";
    if (call->codes.residual && !fits(&tensors[RESIDUAL], y, bytes & RT_BYTES_RESIDUAL))
        return "the residual exceeds its pool";
    if (!fits(&tensors[Y], y, bytes & RT_BYTES_OUTPUT)) return "the output exceeds its pool";
    if ((bytes & RT_BYTES_OUTPUT) && !rt_are_byte_bounds(a, b)) return "its bounds are no bytes";
    return NULL;
}

static uint64_t taps_bytes(const rt_conv_dims *d) {
    return rt_product(rt_product3(d->k_h, d->k_w, RT_BLOCKED_PIXELS), sizeof(void *));
}

/* Of a first layer, whose sizes are in range. */
static const char *first_check(const rt_cpu_call *call, const rt_conv_dims *d, rt_cpu_needs *needs) {
    const float step = rt_quantized_conv2d_args_of(call).step;
    uint64_t x = rt_product(rt_product3(d->batch, d->in_c, d->in_h), (uint64_t)d->in_w);
    if (d->in_c > RT_QUAD) return "its image has more than four channels";
    if (!(step > 0.0f && step < INFINITY)) return "its step is no positive number";
    if (!fits(&call->tensors[X], x, false)) return "the input exceeds its pool";
    const rt_first_turns turns = rt_first_turns_divide(d, RT_QUAD);
    uint64_t quads = rt_product(rt_product(turns.rows, turns.columns), RT_QUAD);
    needs->scratch_bytes = rt_sum(taps_bytes(d), rt_sum(quads, call->codes.block)); /* the last block is read whole */
    return needs->scratch_bytes > INT32_MAX ? "its window is out of range" : NULL;
}

static const char *conv_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    const char *problem = rt_conv_sizes_check(call, &d);
    if (problem != NULL) return problem;
    uint32_t block = call->codes.block;
    uint64_t groups = (uint64_t)d.groups, images = rt_product((uint64_t)d.batch, groups);
    uint64_t quads = rt_ceil_div((uint64_t)d.in_c, RT_QUAD), taps = rt_product((uint64_t)d.k_h, (uint64_t)d.k_w);
    uint64_t depth = rt_product(taps, quads * RT_QUAD);
    if (depth > MOST_PRODUCTS) return "too many products of an output";
    uint64_t x = rt_blocked_elements(images, (uint64_t)d.in_c, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, (uint64_t)d.out_c, rt_product((uint64_t)d.out_h, (uint64_t)d.out_w), block);
    uint64_t channels = rt_blocked_elements(groups, (uint64_t)d.out_c, 1, block);
    needs->scratch_bytes = rt_conv_turn_bytes(&d);
    needs->work = rt_product(y, depth);
    if (call->codes.first && (problem = first_check(call, &d, needs)) != NULL) return problem;
    return tensors_check(call, call->codes.first ? 0 : x, y, rt_product(channels, depth), channels, d.act_a, d.act_b);
}

static rt_blocked_window window_of(const rt_cpu_call *call) {
    rt_quantized_depthwise_args d = rt_quantized_depthwise_args_of(call);
    return (rt_blocked_window){d.in_h,     d.in_w,     d.out_h, d.out_w, d.k_h,   d.k_w,
                               d.stride_h, d.stride_w, d.pad_t, d.pad_l, d.dil_h, d.dil_w};
}

static const char *depthwise_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_quantized_depthwise_args d = rt_quantized_depthwise_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    uint32_t block = call->codes.block;
    uint64_t images = (uint64_t)d.batch, channels = (uint64_t)d.channels;
    uint64_t taps = rt_product((uint64_t)d.k_h, (uint64_t)d.k_w);
    if (taps > RT_QUANTIZED_TAPS) return "too many products of an output";
    uint64_t x = rt_blocked_elements(images, channels, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, channels, rt_product((uint64_t)d.out_h, (uint64_t)d.out_w), block);
    uint64_t lanes = rt_blocked_elements(1, channels, 1, block);
    rt_blocked_window window = window_of(call);
    uint64_t others = rt_product(rt_sum((uint64_t)d.out_w, taps), block * sizeof(float));
    needs->scratch_bytes = rt_sum(rt_padded_rows_bytes(&window, block), others);
    if (needs->scratch_bytes > INT32_MAX) return "its window is out of range";
    needs->work = rt_product(y, taps);
    return tensors_check(call, x, y, rt_product(lanes, taps), lanes, d.act_a, d.act_b);
}

/* --- results --- */

/* What becomes of sums, at the tensors' begin; `lanes`: of the output. */
static rt_quantized_end end_of(const rt_cpu_call *call, int64_t lanes, float a, float b, float residual_scale) {
    return (rt_quantized_end){
        .scales = rt_floats(&call->tensors[SCALES]),
        .shifts = lanes,
        .bias = rt_floats(&call->tensors[B]),
        .residual = call->codes.residual ? call->tensors[RESIDUAL].data : NULL,
        .residual_scale = residual_scale,
        .y = call->tensors[Y].data,
        .bytes = call->codes.bytes,
        .activation = call->codes.activation,
        .a = a,
        .b = b,
        .tiles = call->tiles,
    };
}

/* The same `lanes` channels and `elements` elements further. */
static rt_quantized_end end_move(rt_quantized_end end, int64_t lanes, int64_t elements) {
    int64_t y = end.bytes & RT_BYTES_OUTPUT ? 1 : sizeof(float), residual = end.bytes & RT_BYTES_RESIDUAL ? 1 : sizeof(float);
    end.scales += lanes;
    end.bias += lanes;
    end.y = (char *)end.y + elements * y;
    if (end.residual != NULL) end.residual = (const char *)end.residual + elements * residual;
    return end;
}

/* --- turns --- */

static void conv_turn(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    const rt_conv_turns *turns = &all->turns;
    rt_conv_share own = rt_conv_turn_share(turns, turn, worker);
    int64_t block = turns->block, quads = (turns->d.in_c + RT_QUAD - 1) / RT_QUAD;
    int64_t y_pixel = turns->y_pixel, blocks_of_image = turns->d.groups * turns->out_blocks;
    rt_quantized_tile tile = {.zeros = turns->input.zeros, .taps = (uint32_t)turns->taps};
    tile.y_plane = turns->y_plane;
    tile.y_pixel = y_pixel;
    tile.channels = (uint32_t)turns->d.in_c;
    tile.plane = turns->x_plane;
    tile.weights_stride = turns->taps * quads * block * RT_QUAD;
    tile.signed_bias = all->lanes;
    for (int64_t at = own.first_block; at < own.end_block; at += tile.blocks) {
        int64_t out = own.group * turns->out_blocks + at, rest = own.end_block - at;
        int64_t place = (own.image * blocks_of_image + out) * tile.y_plane + own.first_pixel * y_pixel;
        tile.blocks = rest < turns->tile_blocks ? (uint32_t)rest : turns->tile_blocks;
        tile.weights = (const int8_t *)turns->call->tensors[W].data + out * tile.weights_stride;
        tile.end = end_move(all->end, out * block, place);
        tile.rows = own.rows;
        for (int64_t i = 0; i < own.tiles; i++, tile.rows += turns->taps * RT_BLOCKED_PIXELS) {
            tile.pixels = (uint32_t)(own.width + (i < own.wider));
            all->kernels->product(&tile);
            tile.end = end_move(tile.end, 0, tile.pixels * y_pixel);
        }
    }
}

/* Output blocks whose weights stay in a core's second cache while all pixels of a turn pass, in whole groups. */
static uint32_t blocks_per_pass(const rt_quantized_conv2d_args *d, uint32_t block, uint32_t most) {
    uint64_t blocks = WEIGHT_BYTES / ((uint64_t)d->k_h * (uint64_t)d->k_w * (uint64_t)d->in_c * block) / GROUP * GROUP;
    return blocks > most ? most : blocks < GROUP ? GROUP : (uint32_t)blocks;
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
    tile.end = end_move(all->end, block * lanes, (image * all->blocks + block) * tile.y_plane);
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
        tile.end = end_move(tile.end, 0, first * d->out_w * lanes);
        for (int64_t row = 0; row < count; row++) {
            const uint32_t *x = quads + row * d->stride_h * (int64_t)turns->columns;
            for (int64_t i = 0; i < tiles; i++, x += tile.pixels * d->stride_w) {
                tile.pixels = (uint32_t)(width + (i < wider));
                quad_rows_fill(all, x, rows);
                all->kernels->product(&tile);
                tile.end = end_move(tile.end, 0, tile.pixels * lanes);
            }
        }
    }
}

static void first_run(const rt_cpu_call *call, rt_workers *workers) {
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
    all.end = end_of(call, all.blocks * call->codes.block, all.d.act_a, all.d.act_b, all.d.residual_scale);
    rt_workers_run(workers, (uint32_t)(sizes.batch * all.turns.turns_per_image), first_turn, &all);
}

static void conv_run(const rt_cpu_call *call, rt_workers *workers) {
    if (call->codes.first) {
        first_run(call, workers);
        return;
    }
    rt_quantized_conv2d_args d = rt_quantized_conv2d_args_of(call);
    division all = {.kernels = rt_quantized_kernels_of(call->tiles, call->codes.block, call->codes.bytes)};
    uint8_t zeros[16];
    memset(zeros, (int)call->codes.zero, sizeof zeros);
    const rt_conv_input x = {call->tensors[X].data, zeros, 1, true};
    uint32_t blocks = blocks_per_pass(&d, call->codes.block, all.kernels->blocks);
    all.turns = rt_conv_turns_divide(call, workers, x, all.kernels->pixels, blocks);
    all.lanes = all.turns.d.groups * all.turns.out_blocks * all.turns.block;
    all.end = end_of(call, all.lanes, d.act_a, d.act_b, d.residual_scale);
    rt_workers_run(workers, rt_division_turns(&all.turns.turns), conv_turn, &all);
}

static void depthwise_turn(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const rt_cpu_call *call = all->call;
    const rt_blocked_window *window = &all->window;
    rt_plane_turn own = rt_plane_turn_at(&all->turns, turn);
    int64_t lanes = call->codes.block, channel = own.plane % all->blocks * lanes;
    int64_t count = window->k_h * window->k_w * lanes;
    const int8_t *w = (const int8_t *)call->tensors[W].data + own.plane % all->blocks * count;
    void *padded = rt_workers_scratch(all->workers, worker);
    float *sums = (float *)(void *)((char *)padded + all->padded_bytes), *weights = sums + window->out_w * lanes;
    const rt_quantized_rows rows = {
        .window = window,
        .x = (const uint8_t *)call->tensors[X].data + own.plane * window->in_h * window->in_w * lanes,
        .zero = (uint8_t)call->codes.zero,
        .bytes = w,
        .weights = weights,
        .padded = padded,
        .sums = sums,
        .first_row = own.first_row,
        .end_row = own.end_row,
        .end = end_move(all->end, channel, own.plane * window->out_h * window->out_w * lanes),
    };
    if (all->bytes->depthwise != NULL && all->bytes->depthwise(&rows)) return;
    for (int64_t i = 0; i < count; i++) weights[i] = w[i];
    all->kernels->quantized_depthwise(&rows);
}

static void depthwise_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_quantized_depthwise_args d = rt_quantized_depthwise_args_of(call);
    job all = {
        .call = call,
        .kernels = rt_blocked_kernels_of(call->tiles, call->codes.block),
        .bytes = rt_quantized_kernels_of(call->tiles, call->codes.block, call->codes.bytes),
        .workers = workers,
        .window = window_of(call),
        .blocks = (int64_t)rt_ceil_div((uint64_t)d.channels, call->codes.block),
    };
    all.padded_bytes = rt_padded_rows_bytes(&all.window, call->codes.block);
    all.end = end_of(call, all.blocks * call->codes.block, d.act_a, d.act_b, d.residual_scale);
    all.turns = rt_plane_turns_divide(workers, d.batch * all.blocks, d.out_h, d.out_w);
    rt_workers_run(workers, rt_plane_turns_count(&all.turns), depthwise_turn, &all);
}

const rt_cpu_operator rt_cpu_quantized_conv2d = {RT_QUANTIZED_CONV2D_ROW, .check = conv_check, .run = conv_run};
const rt_cpu_operator rt_cpu_quantized_depthwise = {
    RT_QUANTIZED_DEPTHWISE_ROW, .check = depthwise_check, .run = depthwise_run};
