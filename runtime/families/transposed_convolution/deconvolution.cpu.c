/* deconv2d, deconv_depthwise: transposed convolutions, gathered. Outputs whose row and column leave the same remainders
 * by the strides are a *phase*; the same taps reach them all, so a phase is a convolution of stride 1 with those taps
 * alone, whose window steps backwards through the input. Weights lie in the order of the phases' taps, as
 * runtime/families/transposed_convolution/deconvolution.buffer.cl says.
 *
 * A turn is some tiles of a phase and a group: their row pointers are collected once, then every block of weights
 * passes over all of them. A tile lies within one row of a phase, whose outputs are strides apart.
 */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_rows.h"
#include "../../native/src/cpu/cpu_tile.h"

/* The tensors of both operators. */
enum {
    X = RT_DECONV2D_X,
    W = RT_DECONV2D_W,
    B = RT_DECONV2D_B,
    ZEROS = RT_DECONV2D_ZEROS,
    RESIDUAL = RT_DECONV2D_RESIDUAL,
    Y = RT_DECONV2D_Y
};
_Static_assert((int)RT_DECONV_DEPTHWISE_Y == (int)Y, "both operators have the same tensors");

enum { TILES_PER_TURN = 16 };

/* --- one axis --- */

/* How the taps of an axis reach the outputs of one phase: `taps` of them, behind `before` of other classes; the first
 * reads the input `start` behind the output's place in the phase, each further one `back` before that. A value. */
typedef struct {
    int64_t taps, before, start, back;
} reach;

/* The reach of a phase, whose outputs are at `phase`, phase + stride, ... `kernel` and `stride` are at least 1, `step`
 * is stride / gcd(stride, dilation). */
static reach axis_reach(int64_t phase, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, int64_t step) {
    int64_t at = phase + pad, tap = 0;
    while (tap < step && tap < kernel && (at - tap * dilation) % stride != 0) tap++;
    bool reached = tap < step && tap < kernel;
    int64_t rest = kernel % step < tap ? kernel % step : tap;
    return (reach){.taps = reached ? (kernel - tap + step - 1) / step : 0,
                   .before = kernel / step * tap + rest,
                   .start = (at - tap * dilation) / stride,
                   .back = dilation * step / stride};
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Whether a step is the one that stride and dilation make, all of them at least 1. */
static bool step_fits(int32_t step, int32_t stride, int32_t dilation) {
    return step == stride / greatest_divisor(stride, dilation);
}

/* --- the work, and its division into turns --- */

/* What both operators share; channels are those of a group. Depthwise has one group, in which every tap multiplies
 * channel by channel. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    rt_deconv2d_args dims;
    bool depthwise;
    uint32_t width; /* pixels of a tile */
    uint64_t phases_w, phases;
    uint64_t rows, columns, tiles, chunks; /* of a phase; the tiles are those of one row, the chunks those of all */
} deconvolution;

/* What one turn computes: tiles from `first` on of a phase and a group. */
typedef struct {
    const deconvolution *all;
    uint64_t group, phase_h, phase_w, first, count;
    reach vertical, horizontal;
    const float **pointers;
} share;

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Divides into turns; all sizes are checked. */
static deconvolution divide(const rt_cpu_call *call, rt_workers *workers, rt_deconv2d_args d, bool depthwise) {
    deconvolution all = {.call = call, .workers = workers, .dims = d, .depthwise = depthwise};
    all.width = depthwise ? call->tiles->depthwise_pixels : call->tiles->pixels;
    all.phases_w = smaller((uint64_t)d.stride_w, (uint64_t)d.out_w);
    all.phases = all.phases_w * smaller((uint64_t)d.stride_h, (uint64_t)d.out_h);
    all.rows = rt_ceil_div((uint64_t)d.out_h, (uint64_t)d.stride_h);
    all.columns = rt_ceil_div((uint64_t)d.out_w, (uint64_t)d.stride_w);
    all.tiles = rt_ceil_div(all.columns, all.width);
    all.chunks = rt_ceil_div((uint64_t)d.batch * all.rows * all.tiles, TILES_PER_TURN);
    return all;
}

/* The share of a turn: the group is the slowest index, then the phase, then the tiles. */
static share turn_share(const deconvolution *all, uint32_t turn, uint32_t worker) {
    const rt_deconv2d_args *d = &all->dims;
    uint64_t phase = turn / all->chunks % all->phases;
    share own = {.all = all, .group = turn / all->chunks / all->phases};
    own.phase_h = phase / all->phases_w;
    own.phase_w = phase % all->phases_w;
    own.first = turn % all->chunks * TILES_PER_TURN;
    own.count = smaller((uint64_t)d->batch * all->rows * all->tiles - own.first, TILES_PER_TURN);
    own.vertical = axis_reach((int64_t)own.phase_h, d->k_h, d->stride_h, d->pad_t, d->dil_h, d->step_h);
    own.horizontal = axis_reach((int64_t)own.phase_w, d->k_w, d->stride_w, d->pad_l, d->dil_w, d->step_w);
    own.pointers = rt_workers_scratch(all->workers, worker);
    return own;
}

/* Taps of a share; a phase that no tap reaches has one, which reads the zeros. */
static uint64_t share_taps(const share *own) {
    uint64_t taps = (uint64_t)(own->vertical.taps * own->horizontal.taps);
    return taps > 0 ? taps : 1;
}

/* The window of one row of a phase in an image. */
static rt_window row_window(const share *own, uint64_t image, uint64_t row) {
    const rt_deconv2d_args *d = &own->all->dims;
    const rt_cpu_tensor *x = &own->all->call->tensors[X];
    bool reached = own->vertical.taps * own->horizontal.taps > 0;
    int64_t place = (int64_t)image * d->in_h * d->in_w * x->stride + (int64_t)own->group * d->in_c;
    return (rt_window){.x = rt_floats(x) + place,
                       .zeros = rt_floats(&own->all->call->tensors[ZEROS]),
                       .x_stride = x->stride,
                       .in_h = reached ? d->in_h : 0,
                       .in_w = d->in_w,
                       .out_h = 1,
                       .out_w = (int64_t)own->all->columns,
                       .k_h = reached ? own->vertical.taps : 1,
                       .k_w = reached ? own->horizontal.taps : 1,
                       .stride_h = 1,
                       .stride_w = 1,
                       .pad_t = -((int64_t)row + own->vertical.start),
                       .pad_l = -own->horizontal.start,
                       .dil_h = -own->vertical.back,
                       .dil_w = -own->horizontal.back};
}

/* Where a tile's outputs lie: the first, of `count`, all of them one stride of the phase apart. */
typedef struct {
    uint64_t image, row, column, count, pixel;
} tile_place;

/* The place of a tile; one behind the output's last row or column has no pixels. */
static tile_place tile_at(const share *own, uint64_t tile) {
    const deconvolution *all = own->all;
    const rt_deconv2d_args *d = &all->dims;
    uint64_t line = tile / all->tiles;
    tile_place at = {.image = line / all->rows, .row = line % all->rows, .column = tile % all->tiles * all->width};
    uint64_t out_row = at.row * (uint64_t)d->stride_h + own->phase_h;
    uint64_t out_column = at.column * (uint64_t)d->stride_w + own->phase_w;
    if (out_row >= (uint64_t)d->out_h || out_column >= (uint64_t)d->out_w) return at;
    uint64_t columns = rt_ceil_div((uint64_t)d->out_w - out_column, (uint64_t)d->stride_w);
    at.count = smaller(columns, all->width);
    at.pixel = (at.image * (uint64_t)d->out_h + out_row) * (uint64_t)d->out_w + out_column;
    return at;
}

/* Where the row pointers of a share's tile lie. */
static const float **tile_pointers(const share *own, uint64_t index) {
    return own->pointers + index * share_taps(own) * RT_TILE_PIXELS;
}

/* The row pointers of all tiles of a share. */
static void share_pointers_fill(const share *own) {
    for (uint64_t i = 0; i < own->count; i++) {
        tile_place at = tile_at(own, own->first + i);
        if (at.count == 0) continue;
        rt_window window = row_window(own, at.image, at.row);
        rt_rows_fill(&window, at.column, at.count, RT_TILE_PIXELS, tile_pointers(own, i));
    }
}

/* The epilogue of a tile, whose pixels are numbered from 0. */
static rt_epilogue tile_epilogue(const share *own, uint64_t pixel) {
    const rt_cpu_call *call = own->all->call;
    const rt_cpu_tensor *residual = &call->tensors[RESIDUAL], *y = &call->tensors[Y];
    int64_t channel = (int64_t)own->group * own->all->dims.out_c, stride = own->all->dims.stride_w;
    const float *added = call->codes.residual ? rt_floats(residual) + (int64_t)pixel * residual->stride + channel : NULL;
    return (rt_epilogue){.bias = rt_floats(&call->tensors[B]) + channel,
                         .residual = added,
                         .residual_stride = residual->stride * stride,
                         .y = rt_floats(y) + (int64_t)pixel * y->stride + channel,
                         .y_stride = y->stride * stride,
                         .activation = call->codes.activation,
                         .a = own->all->dims.act_a,
                         .b = own->all->dims.act_b};
}

/* Taps that lie before those of a share. */
static int64_t taps_before(const share *own) {
    return own->all->dims.k_w * own->vertical.before + own->vertical.taps * own->horizontal.before;
}

/* --- deconv2d --- */

/* Lets one or two blocks of weights pass over the share's tiles. */
static void blocks_run(const share *own, rt_tile *tile) {
    for (uint64_t i = 0; i < own->count; i++) {
        tile_place at = tile_at(own, own->first + i);
        if (at.count == 0) continue;
        rt_epilogue epilogue = tile_epilogue(own, at.pixel);
        tile->rows = tile_pointers(own, i);
        tile->pixels = (uint32_t)at.count;
        tile->epilogue = &epilogue;
        own->all->call->tiles->product(tile);
    }
}

/* A turn: every block of weights over all tiles of the share. */
static void deconv2d_turn(const void *context, uint32_t turn, uint32_t worker) {
    const deconvolution *all = context;
    share own = turn_share(all, turn, worker);
    const rt_deconv2d_args *d = &all->dims;
    int64_t block_size = (int64_t)d->k_h * d->k_w * d->in_c * RT_CPU_BLOCK;
    uint64_t blocks = rt_ceil_div((uint64_t)d->out_c, RT_CPU_BLOCK);
    const float *weights = rt_floats(&all->call->tensors[W]) + (int64_t)(own.group * blocks) * block_size;
    bool reached = own.vertical.taps * own.horizontal.taps > 0;
    if (reached) weights += taps_before(&own) * d->in_c * RT_CPU_BLOCK;
    rt_tile tile = {.taps = (uint32_t)share_taps(&own), .depth = (uint32_t)d->in_c};
    tile.weights_stride = RT_CPU_BLOCK;
    tile.block_stride = block_size;
    share_pointers_fill(&own);
    for (uint64_t block = 0; block < blocks; block += tile.blocks) {
        tile.blocks = rt_tile_blocks(all->call->tiles, blocks - block);
        tile.first_channel = block * RT_CPU_BLOCK;
        tile.channels = smaller((uint64_t)d->out_c - tile.first_channel, (uint64_t)tile.blocks * RT_CPU_BLOCK);
        tile.weights = weights + (int64_t)block * block_size;
        blocks_run(&own, &tile);
    }
}

/* A row is an output channel of the group, with a column for each tap and input channel. */
static rt_cpu_packing deconv2d_packing(const rt_cpu_call *call) {
    rt_deconv2d_args d = rt_deconv2d_args_of(call);
    return (rt_cpu_packing){(uint64_t)d.groups, (uint64_t)d.out_c, rt_product3(d.k_h, d.k_w, d.in_c)};
}

/* What both operators ask: steps in range, and tensors as large as the sizes say. Channels are those of all groups. */
static const char *common_check(const rt_cpu_call *call, const rt_deconv2d_args *d, uint64_t inputs, uint64_t outputs) {
    const rt_cpu_tensor *tensors = call->tensors;
    if (!step_fits(d->step_h, d->stride_h, d->dil_h) || !step_fits(d->step_w, d->stride_w, d->dil_w))
        return "its steps are not those of strides and dilations";
    uint64_t pixels = rt_product3(d->batch, d->out_h, d->out_w), taps = rt_product((uint64_t)d->k_h, (uint64_t)d->k_w);
    /* Rows and columns of the phases, rounded up, make up to four times as many turns. */
    if (rt_product(pixels, (uint64_t)d->groups) > UINT32_MAX / 8 || taps > UINT32_MAX) return "too many pixels";
    if (!rt_view_fits(&tensors[X], rt_product3(d->batch, d->in_h, d->in_w), inputs))
        return "the input exceeds its pool";
    if (!rt_flat_fits(&tensors[B], outputs)) return "the bias exceeds its pool";
    if (!rt_flat_fits(&tensors[ZEROS], (uint64_t)d->in_c)) return "the zeros exceed their pool";
    if (call->codes.residual && !rt_view_fits(&tensors[RESIDUAL], pixels, outputs))
        return "the residual exceeds its pool";
    return rt_view_fits(&tensors[Y], pixels, outputs) ? NULL : "the output exceeds its pool";
}

/* Row pointers of a turn's tiles. */
static uint64_t scratch_bytes(const rt_deconv2d_args *d) {
    uint64_t pointers = TILES_PER_TURN * RT_TILE_PIXELS * sizeof(float *);
    return rt_product(rt_product((uint64_t)d->k_h, (uint64_t)d->k_w), pointers);
}

static const char *deconv2d_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_deconv2d_args d = rt_deconv2d_args_of(call);
    uint64_t inputs = rt_product((uint64_t)d.groups, (uint64_t)d.in_c);
    uint64_t outputs = rt_product((uint64_t)d.groups, (uint64_t)d.out_c);
    const char *problem = common_check(call, &d, inputs, outputs);
    if (problem != NULL) return problem;
    rt_cpu_packing packing = deconv2d_packing(call);
    if (!rt_packing_fits(call, &packing)) return "the weights exceed their pool";
    needs->work = rt_product(rt_product(rt_product3(d.batch, d.in_h, d.in_w), outputs), packing.cols);
    needs->scratch_bytes = scratch_bytes(&d);
    return NULL;
}

static void deconv2d_run(const rt_cpu_call *call, rt_workers *workers) {
    deconvolution all = divide(call, workers, rt_deconv2d_args_of(call), false);
    uint64_t turns = all.chunks * all.phases * (uint64_t)all.dims.groups;
    rt_workers_run(workers, (uint32_t)turns, deconv2d_turn, &all);
}

/* --- deconv_depthwise: weights [taps][channels] --- */

/* As a transposed convolution of one group, as wide as the channels. */
static rt_deconv2d_args depthwise_read(const rt_cpu_call *call) {
    rt_deconv_depthwise_args d = rt_deconv_depthwise_args_of(call);
    return (rt_deconv2d_args){.batch = d.batch,
                              .in_h = d.in_h,
                              .in_w = d.in_w,
                              .in_c = d.channels,
                              .out_h = d.out_h,
                              .out_w = d.out_w,
                              .out_c = d.channels,
                              .k_h = d.k_h,
                              .k_w = d.k_w,
                              .stride_h = d.stride_h,
                              .stride_w = d.stride_w,
                              .pad_t = d.pad_t,
                              .pad_l = d.pad_l,
                              .dil_h = d.dil_h,
                              .dil_w = d.dil_w,
                              .step_h = d.step_h,
                              .step_w = d.step_w,
                              .groups = 1,
                              .act_a = d.act_a,
                              .act_b = d.act_b};
}

static const char *depthwise_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_deconv2d_args d = depthwise_read(call);
    uint64_t channels = (uint64_t)d.in_c;
    const char *problem = common_check(call, &d, channels, channels);
    if (problem != NULL) return problem;
    if (!rt_flat_fits(&call->tensors[W], rt_product3(d.k_h, d.k_w, d.in_c))) return "the weights exceed their pool";
    uint64_t inputs = rt_product(rt_product3(d.batch, d.in_h, d.in_w), channels);
    needs->work = rt_product(inputs, rt_product((uint64_t)d.k_h, (uint64_t)d.k_w));
    needs->scratch_bytes = scratch_bytes(&d);
    return NULL;
}

/* A turn: all channels of the share's tiles. */
static void depthwise_turn(const void *context, uint32_t turn, uint32_t worker) {
    const deconvolution *all = context;
    share own = turn_share(all, turn, worker);
    bool reached = own.vertical.taps * own.horizontal.taps > 0;
    share_pointers_fill(&own);
    for (uint64_t i = 0; i < own.count; i++) {
        tile_place at = tile_at(&own, own.first + i);
        if (at.count == 0) continue;
        rt_epilogue epilogue = tile_epilogue(&own, at.pixel);
        rt_depthwise_tile tile = {.rows = tile_pointers(&own, i),
                                  .taps = (uint32_t)share_taps(&own),
                                  .weights = rt_floats(&all->call->tensors[W]),
                                  .channels = (uint64_t)all->dims.in_c,
                                  .pixels = (uint32_t)at.count,
                                  .epilogue = &epilogue};
        if (reached) tile.weights += taps_before(&own) * all->dims.in_c;
        all->call->tiles->depthwise(&tile);
    }
}

static void depthwise_run(const rt_cpu_call *call, rt_workers *workers) {
    deconvolution all = divide(call, workers, depthwise_read(call), true);
    rt_workers_run(workers, (uint32_t)(all.chunks * all.phases), depthwise_turn, &all);
}

const rt_cpu_operator rt_cpu_deconv2d = {
    RT_DECONV2D_ROW, .check = deconv2d_check, .run = deconv2d_run, .packing = deconv2d_packing};
const rt_cpu_operator rt_cpu_deconv_depthwise = {
    RT_DECONV_DEPTHWISE_ROW, .check = depthwise_check, .run = depthwise_run};
