/* blocked_separable: a 1x1 convolution to more channels (EXPAND), a depthwise convolution, and a 1x1 convolution to fewer,
 * as one step. Of what lies between them there are only the rows under the window, and one row of what the depthwise
 * convolution makes of them, which stay in a core's cache.
 *
 * Weights and biases hold those of each convolution in turn, packed as theirs. A turn is a range of output rows of an
 * image.
 */
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_blocked.h"

enum {
    X = RT_BLOCKED_SEPARABLE_X,
    W = RT_BLOCKED_SEPARABLE_W,
    B = RT_BLOCKED_SEPARABLE_B,
    RESIDUAL = RT_BLOCKED_SEPARABLE_RESIDUAL,
    Y = RT_BLOCKED_SEPARABLE_Y
};
enum { ALIGNMENT = 64, COPYING_TURNS_PER_WORKER = 3 };

typedef rt_blocked_separable_args dims;

static const float zeros[16];

/* Where the parts of a worker's scratch begin, in bytes: pointers to the rows under the window, to the pixels of an input
 * row and of a deep row, then floats: a row of zeros, the ring of wide rows, the deep row. A value. */
typedef struct {
    uint64_t inputs, outputs, zeros, ring, deep, end;
} parts;

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    const rt_blocked_kernels *kernels;
    dims d;
    rt_blocked_window window;
    rt_padded_rows padded;
    parts parts;
    rt_plane_turns turns;
    int64_t lanes, in_blocks, blocks, out_blocks;
    int64_t step, wide_row; /* elements of a padded row of one block, and of all */
} job;

/* A turn with its scratch. */
typedef struct {
    const job *all;
    const float *x; /* the image */
    int64_t image;
    const float **under;
    const void **inputs, **outputs;
    float *ring, *deep;
    const float *zeros;
} share;

static rt_blocked_window window_of(const dims *d) {
    return (rt_blocked_window){d->in_h,     d->in_w,     d->out_h, d->out_w, d->k_h,   d->k_w,
                               d->stride_h, d->stride_w, d->pad_t, d->pad_l, d->dil_h, d->dil_w};
}

static uint64_t aligned(uint64_t bytes) { return rt_product(rt_ceil_div(bytes, ALIGNMENT), ALIGNMENT); }

static parts parts_of(const dims *d, const rt_padded_rows *padded, uint32_t block) {
    uint64_t pointer = sizeof(void *), row = rt_product(padded->width, block * sizeof(float));
    uint64_t blocks = rt_ceil_div((uint64_t)d->channels, block);
    parts made = {.inputs = padded->pointer_bytes};
    made.outputs = rt_sum(made.inputs, aligned((uint64_t)d->in_w * pointer));
    made.zeros = rt_sum(made.outputs, aligned((uint64_t)d->out_w * pointer));
    made.ring = rt_sum(made.zeros, aligned(row));
    made.deep = rt_sum(made.ring, aligned(rt_product(rt_product(padded->rows, blocks), row)));
    made.end = rt_sum(made.deep, rt_product(rt_product((uint64_t)d->out_w, blocks), block * sizeof(float)));
    return made;
}

/* Of the weights, and of one value for each output of every convolution. */
static uint64_t weight_elements(const dims *d, uint32_t block, bool expands, bool are_biases) {
    uint64_t wide = expands ? rt_blocked_elements(1, (uint64_t)d->channels, are_biases ? 1 : (uint64_t)d->in_c, block) : 0;
    uint64_t taps = are_biases ? 1 : rt_product((uint64_t)d->k_h, (uint64_t)d->k_w);
    uint64_t deep = rt_blocked_elements(1, (uint64_t)d->channels, taps, block);
    uint64_t narrow = rt_blocked_elements(1, (uint64_t)d->out_c, are_biases ? 1 : (uint64_t)d->channels, block);
    return rt_sum(wide, rt_sum(deep, narrow));
}

static const char *separable_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = rt_blocked_separable_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    uint32_t block = call->codes.block;
    bool expands = call->codes.expand;
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (!expands && d.in_c != d.channels) return "its channels are not those of its input";
    uint64_t images = (uint64_t)d.batch, pixels = rt_product((uint64_t)d.out_h, (uint64_t)d.out_w);
    uint64_t x = rt_blocked_elements(images, (uint64_t)d.in_c, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, (uint64_t)d.out_c, pixels, block);
    if (y / block > UINT32_MAX) return "too many pixels";
    if (!rt_flat_fits(&tensors[X], x)) return "the input exceeds its pool";
    if (!rt_flat_fits(&tensors[W], weight_elements(&d, block, expands, false))) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[B], weight_elements(&d, block, expands, true))) return "the bias exceeds its pool";
    if (call->codes.residual && !rt_flat_fits(&tensors[RESIDUAL], y)) return "the residual exceeds its pool";
    if (!rt_flat_fits(&tensors[Y], y)) return "the output exceeds its pool";
    rt_blocked_window window = window_of(&d);
    rt_padded_rows padded = rt_padded_rows_of(&window);
    needs->scratch_bytes = parts_of(&d, &padded, block).end;
    if (needs->scratch_bytes > INT32_MAX) return "its window is out of range";
    uint64_t wide = expands ? rt_product(x, (uint64_t)d.channels) : 0, deep = rt_product(images, pixels);
    deep = rt_product(rt_product(deep, (uint64_t)d.channels), rt_product((uint64_t)d.k_h, (uint64_t)d.k_w));
    needs->work = rt_sum(rt_sum(wide, deep), rt_product(y, (uint64_t)d.channels));
    return NULL;
}

/* A 1x1 convolution of a row of `pixels` pixels: all passes of its output blocks over all tiles, as many pixels each or
 * one more. `tile` is that of the first block and pixel. */
static void row_multiply(const job *all, rt_blocked_tile tile, int64_t blocks, int64_t pixels) {
    const void *const *rows = tile.rows;
    const float *weights = tile.weights, *bias = tile.bias, *residual = tile.residual;
    float *y = tile.y;
    int64_t most = all->kernels->blocks, tiles = (int64_t)rt_ceil_div((uint64_t)pixels, all->kernels->pixels);
    for (int64_t block = 0; block < blocks; block += most) {
        tile.blocks = (uint32_t)(blocks - block < most ? blocks - block : most);
        tile.weights = weights + block * tile.weights_stride;
        tile.bias = bias + block * all->lanes;
        for (int64_t i = 0, first = 0; i < tiles; i++, first += tile.pixels) {
            tile.pixels = (uint32_t)(pixels / tiles + (i < pixels % tiles));
            tile.rows = rows + first;
            tile.y = y + block * tile.y_plane + first * all->lanes;
            if (residual != NULL) tile.residual = residual + block * tile.y_plane + first * all->lanes;
            all->kernels->product(&tile);
        }
    }
}

static rt_blocked_tile tile_of(const job *all, int64_t channels, const float *weights, const float *bias) {
    return (rt_blocked_tile){
        .zeros = zeros,
        .taps = 1,
        .channels = (uint32_t)channels,
        .weights = weights,
        .weights_stride = channels * all->lanes,
        .bias = bias,
        .activation = all->call->codes.inner,
        .a = all->d.inner_a,
        .b = all->d.inner_b,
        .tiles = all->call->tiles,
    };
}

static float *wide_row_of(const share *own, int64_t row) {
    return own->ring + row % (int64_t)own->all->padded.rows * own->all->wide_row;
}

/* Makes a wide row. */
static void wide_row_fill(const share *own, int64_t row) {
    const job *all = own->all;
    const dims *d = &all->d;
    int64_t lanes = all->lanes, plane = (int64_t)d->in_h * d->in_w * lanes, room = all->step / lanes - d->pad_l;
    int64_t columns = d->in_w < room ? d->in_w : room;
    const float *x = own->x + row * d->in_w * lanes;
    float *wide = wide_row_of(own, row) + d->pad_l * lanes;
    if (columns <= 0) return;
    if (!all->call->codes.expand) {
        for (int64_t block = 0; block < all->blocks; block++) {
            memcpy(wide + block * all->step, x + block * plane, (size_t)(columns * lanes) * sizeof(float));
        }
        return;
    }
    for (int64_t i = 0; i < columns; i++) own->inputs[i] = x + i * lanes;
    rt_blocked_tile tile = tile_of(all, d->in_c, rt_floats(&all->call->tensors[W]), rt_floats(&all->call->tensors[B]));
    tile.rows = own->inputs;
    tile.plane = plane;
    tile.y = wide;
    tile.y_plane = all->step;
    row_multiply(all, tile, all->blocks, columns);
}

/* Makes the deep row of an output row from the wide ones. */
static void deep_row_fill(const share *own, int64_t row) {
    const job *all = own->all;
    const dims *d = &all->d;
    int64_t lanes = all->lanes, taps = (int64_t)d->k_h * d->k_w, top = row * d->stride_h - d->pad_t;
    int64_t wide = all->call->codes.expand ? all->blocks * lanes : 0;
    rt_blocked_rows rows = {
        .window = &all->window,
        .under = own->under,
        .weights = rt_floats(&all->call->tensors[W]) + wide * d->in_c,
        .bias = rt_floats(&all->call->tensors[B]) + wide,
        .y = own->deep,
        .end_row = 1,
        .activation = all->call->codes.inner,
        .a = d->inner_a,
        .b = d->inner_b,
        .tiles = all->call->tiles,
    };
    for (int64_t block = 0; block < all->blocks; block++) {
        for (int64_t i = 0; i < d->k_h; i++) {
            int64_t at = top + i * d->dil_h;
            own->under[i] = at < 0 || at >= d->in_h ? own->zeros : wide_row_of(own, at) + block * all->step;
        }
        all->kernels->depthwise(&rows);
        rows.weights += taps * lanes;
        rows.bias += lanes;
        rows.y += d->out_w * lanes;
    }
}

/* Makes an output row from the deep one. */
static void narrow_row_fill(const share *own, int64_t row) {
    const job *all = own->all;
    const dims *d = &all->d;
    const rt_cpu_call *call = all->call;
    int64_t lanes = all->lanes, wide = all->blocks * lanes, plane = (int64_t)d->out_h * d->out_w * lanes;
    int64_t place = own->image * all->out_blocks * plane + row * d->out_w * lanes;
    int64_t before = call->codes.expand ? wide : 0;
    const float *weights = rt_floats(&call->tensors[W]) + before * d->in_c + wide * d->k_h * d->k_w;
    rt_blocked_tile tile = tile_of(all, d->channels, weights, rt_floats(&call->tensors[B]) + before + wide);
    tile.rows = own->outputs;
    tile.plane = d->out_w * lanes;
    tile.y = rt_floats(&call->tensors[Y]) + place;
    tile.y_plane = plane;
    if (call->codes.residual) tile.residual = rt_floats(&call->tensors[RESIDUAL]) + place;
    tile.activation = call->codes.activation;
    tile.a = d->act_a;
    tile.b = d->act_b;
    row_multiply(all, tile, all->out_blocks, d->out_w);
}

static share share_start(const job *all, int64_t image, char *scratch) {
    const parts *at = &all->parts;
    int64_t plane = (int64_t)all->d.in_h * all->d.in_w * all->lanes;
    share own = {
        .all = all,
        .x = rt_floats(&all->call->tensors[X]) + image * all->in_blocks * plane,
        .image = image,
        .under = (const float **)scratch,
        .inputs = (const void **)(scratch + at->inputs),
        .outputs = (const void **)(scratch + at->outputs),
        .ring = (float *)(scratch + at->ring),
        .deep = (float *)(scratch + at->deep),
        .zeros = (float *)(scratch + at->zeros),
    };
    memset(scratch + at->zeros, 0, (size_t)(at->deep - at->zeros));
    for (int64_t i = 0; i < all->d.out_w; i++) own.outputs[i] = own.deep + i * all->lanes;
    return own;
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const rt_blocked_window *w = &all->window;
    rt_plane_turn rows = rt_plane_turn_at(&all->turns, turn);
    share own = share_start(all, rows.plane, rt_workers_scratch(all->workers, worker));
    int64_t next = rows.first_row * w->stride_h - w->pad_t;
    if (next < 0) next = 0;
    for (int64_t row = rows.first_row; row < rows.end_row; row++) {
        int64_t end = row * w->stride_h - w->pad_t + (w->k_h - 1) * w->dil_h + 1;
        for (; next < end && next < w->in_h; next++) wide_row_fill(&own, next);
        deep_row_fill(&own, row);
        narrow_row_fill(&own, row);
    }
}

/* Whoever begins in the middle of an image makes the rows above anew: no more turns than workers then. */
static rt_plane_turns divide(const rt_workers *workers, const dims *d, bool expands) {
    uint64_t count = rt_workers_count(workers), wanted = count > 1 && !expands ? count * COPYING_TURNS_PER_WORKER : count;
    uint64_t turns = rt_ceil_div(wanted, (uint64_t)d->batch);
    rt_plane_turns all = {.planes = d->batch, .rows = d->out_h};
    all.rows_per_turn = (int64_t)rt_ceil_div((uint64_t)d->out_h, turns);
    all.turns_per_plane = (int64_t)rt_ceil_div((uint64_t)d->out_h, (uint64_t)all.rows_per_turn);
    return all;
}

static void separable_run(const rt_cpu_call *call, rt_workers *workers) {
    uint32_t lanes = call->codes.block;
    job all = {.call = call, .workers = workers, .d = rt_blocked_separable_args_of(call), .lanes = lanes};
    all.kernels = rt_blocked_kernels_of(call->tiles, lanes);
    all.window = window_of(&all.d);
    all.padded = rt_padded_rows_of(&all.window);
    all.parts = parts_of(&all.d, &all.padded, lanes);
    all.in_blocks = (int64_t)rt_ceil_div((uint64_t)all.d.in_c, lanes);
    all.blocks = (int64_t)rt_ceil_div((uint64_t)all.d.channels, lanes);
    all.out_blocks = (int64_t)rt_ceil_div((uint64_t)all.d.out_c, lanes);
    all.step = (int64_t)all.padded.width * lanes;
    all.wide_row = all.blocks * all.step;
    all.turns = divide(workers, &all.d, call->codes.expand);
    rt_workers_run(workers, rt_plane_turns_count(&all.turns), turn_run, &all);
}

const rt_cpu_operator rt_cpu_blocked_separable = {
    RT_BLOCKED_SEPARABLE_ROW, .check = separable_check, .run = separable_run};
