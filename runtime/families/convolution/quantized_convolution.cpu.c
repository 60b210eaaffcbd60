/* quantized_conv2d and quantized_depthwise: blocked_conv2d and blocked_depthwise of eight bits (cpu_quantized.h). Padding
 * is the zero point ZERO; BYTES says what of output and residual lies in bytes, the rest lies in floats. `b` has the
 * biases for sums over u, then those for sums over u - 128; both have the zero point in them. FOUND: the steps of the input
 * follow it, and `b` has biases, sums of weights and, with OFFSETS, what the weights lack: they are w + offset. With FIRST the
 * input is a row-major image in floats, of four channels at most, which it rounds to bytes itself.
 *
 * integer_winograd is quantized_conv2d of a 3x3 window of stride 1, whose weights are transformed, in 16 bits: a turn
 * transforms the inputs of its tiles, lets the weights of each point pass over them, and transforms the sums. */
#include <math.h>
#include <stddef.h>
#include <string.h>
#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

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
_Static_assert((int)RT_QUANTIZED_DEPTHWISE_Y == (int)Y && (int)RT_INTEGER_WINOGRAD_Y == (int)Y, "all have the same tensors");

enum { WEIGHT_BYTES = 384 << 10, GROUP = 4, LEAST_TILES = 4 /* that pay for widened weights */ };

/* Products of an output whose sum fits 31 bits. */
enum { MOST_PRODUCTS = INT32_MAX / (255 * 128) };

/* A call with its division into turns. */
typedef struct {
    rt_conv_turns turns;
    const rt_quantized_kernels *kernels;
    rt_quantized_end end; /* at the tensors' begin */
    int64_t lanes;        /* output lanes of all groups */
    uint8_t zero;         /* of the input */
    uint64_t rows_bytes;  /* of a worker's scratch, before widened weights */
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
    uint8_t zero;          /* of the input */
} job;

/* --- checks --- */

/* Output blocks whose weights stay in a core's second cache while all pixels of a turn pass, in whole groups. */
static uint32_t blocks_per_pass(const rt_conv_dims *d, uint32_t block, uint32_t most) {
    uint64_t blocks = WEIGHT_BYTES / ((uint64_t)d->k_h * (uint64_t)d->k_w * (uint64_t)d->in_c * block) / GROUP * GROUP;
    return blocks > most ? most : blocks < GROUP ? GROUP : (uint32_t)blocks;
}

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
    const bool is_found = bytes & RT_BYTES_FOUND;
    if (!rt_flat_fits(&tensors[X], rt_sum(x, is_found ? sizeof(rt_found_steps) : 0))) return "the input exceeds its pool";
    if (!rt_flat_fits(&tensors[W], weights)) return "the weights exceed their pool";
    bool is_fixed = bytes & RT_BYTES_FIXED;
    if (is_fixed && !(bytes & RT_BYTES_OUTPUT)) return "fixed point rounds to bytes";
    if (!rt_flat_fits(&tensors[SCALES], rt_product(is_fixed ? 4 : 1, channels))) return "the scales exceed their pool";
    if (is_found && is_fixed) return "found steps have no fixed point";
    if (!is_found && (bytes & RT_BYTES_OFFSETS)) return "its offsets need found steps";
    if (!rt_flat_fits(&tensors[B], rt_product(bytes & RT_BYTES_OFFSETS ? 3 : 2, channels))) return "the bias exceeds its pool";
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
    const rt_quantized_kernels *kernels = rt_quantized_kernels_of(call->tiles, block, call->codes.bytes);
    uint64_t widened = rt_product(blocks_per_pass(&d, block, kernels->blocks) * block * sizeof(int16_t), depth);
    needs->scratch_bytes = rt_sum(rt_conv_turn_bytes(&d), kernels->widen != NULL ? widened : 0);
    needs->work = rt_product(y, depth);
    if (call->codes.first && (problem = first_check(call, &d, needs)) != NULL) return problem;
    return tensors_check(call, call->codes.first ? 0 : x, y, rt_product(channels, depth), channels, d.act_a, d.act_b);
}

#if defined(__SSE2__)
/* Sizes of Winograd's algorithm: outputs of a tile's side, its points; bytes of transformed inputs of a turn, its tiles, and
 * blocks of outputs that pass over them at once; and how many sixths of a block's products a tile's transform takes. */
enum { SIDE = RT_WINOGRAD_ALPHA - 2, POINTS = RT_WINOGRAD_ALPHA * RT_WINOGRAD_ALPHA };
enum { DOMAIN_BYTES = 768 << 10, MIN_TILES = 6, MAX_TILES = 48, PASS = 4, TRANSFORM_WORK = 3 };

/* Of a point, inputs of a tile. */
static uint64_t winograd_depth(const rt_conv_dims *d) {
    return rt_product(rt_ceil_div((uint64_t)d->in_c, RT_WINOGRAD_WIDE), RT_WINOGRAD_WIDE);
}

static uint64_t winograd_tiles(const rt_conv_dims *d) {
    uint64_t tiles = DOMAIN_BYTES / (POINTS * sizeof(int16_t)) / winograd_depth(d) / MIN_TILES * MIN_TILES;
    return tiles < MIN_TILES ? MIN_TILES : tiles < MAX_TILES ? tiles : MAX_TILES;
}

static const char *winograd_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    const rt_integer_winograd_args args = rt_integer_winograd_args_of(call);
    uint32_t block = call->codes.block;
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (d.stride_h != 1 || d.stride_w != 1 || d.dil_h != 1 || d.dil_w != 1 || d.groups != 1)
        return "it has a stride, a dilation or groups";
    if (d.k_h != 3 || d.k_w != 3) return "its window is not 3x3";
    uint64_t images = (uint64_t)d.batch, depth = winograd_depth(&d);
    uint64_t x = rt_blocked_elements(images, (uint64_t)d.in_c, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, (uint64_t)d.out_c, rt_product((uint64_t)d.out_h, (uint64_t)d.out_w), block);
    uint64_t channels = rt_blocked_elements(1, (uint64_t)d.out_c, 1, block);
    uint64_t inputs = rt_product(depth, sizeof(int16_t)), sums = PASS * block * sizeof(int32_t);
    needs->scratch_bytes = rt_product(POINTS * winograd_tiles(&d), rt_sum(inputs, sums));
    needs->work = rt_product(rt_product(y, depth), POINTS) / (SIDE * SIDE);
    uint64_t weights = rt_product(rt_product(channels, depth), POINTS * sizeof(int16_t));
    if (call->tensors[W].offset % sizeof(int16_t) != 0) return "the weights begin within a word";
    return tensors_check(call, x, y, weights, channels, args.act_a, args.act_b);
}
#endif

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
    if (taps > (call->codes.bytes & RT_BYTES_OFFSETS ? RT_QUANTIZED_TAPS / 2 : RT_QUANTIZED_TAPS))
        return "too many products of an output";
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

/* What becomes of sums, at the tensors' begin; `lanes`: of the output, `x`: elements of the input. */
static rt_quantized_end end_of(const rt_cpu_call *call, int64_t lanes, uint64_t x, float a, float b, float residual_scale) {
    rt_found_steps found = {1.0f, (int32_t)call->codes.zero};
    if (call->codes.bytes & RT_BYTES_FOUND) found = rt_found_steps_of(call->tensors[X].data, x);
    return (rt_quantized_end){
        .step = found.step,
        .zero = found.zero,
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

/* The sum of 8 bytes. */
static inline int32_t eight_total(const uint8_t *x) {
#if defined(__aarch64__)
    return vaddlv_u8(vld1_u8(x));
#elif defined(__SSE2__)
    return _mm_cvtsi128_si32(_mm_sad_epu8(_mm_loadl_epi64((const __m128i *)(const void *)x), _mm_setzero_si128()));
#else
    int32_t total = 0;
    for (int i = 0; i < 8; i++) total += x[i];
    return total;
#endif
}

/* What the inputs of each pixel of a tile sum to, each less the zero point. */
static void inputs_total(const rt_quantized_tile *tile, int64_t block, int32_t zero, int32_t *totals) {
    const int64_t channels = tile->channels, whole = channels / block * block;
    for (uint32_t p = 0; p < tile->pixels; p++) {
        totals[p] = 0;
        for (uint32_t t = 0; t < tile->taps; t++) {
            const uint8_t *x = tile->rows[t * RT_BLOCKED_PIXELS + p];
            int32_t total = 0;
            if (x == tile->zeros) continue;
            for (int64_t c = 0; c < whole; c += block, x += tile->plane) {
                for (int64_t i = 0; i < block; i += 8) total += eight_total(x + i);
            }
            for (int64_t c = whole; c < channels; c++) total += x[c - whole];
            totals[p] += total - (int32_t)channels * zero;
        }
    }
}

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
    int32_t starts[RT_BLOCKED_PIXELS];
    if (all->end.bytes & RT_BYTES_OFFSETS) tile.starts = starts;
    int16_t *words = (int16_t *)(void *)((char *)own.rows + all->rows_bytes);
    const bool widens = all->kernels->widen != NULL && own.tiles >= LEAST_TILES;
    for (int64_t at = own.first_block; at < own.end_block; at += tile.blocks) {
        int64_t out = own.group * turns->out_blocks + at, rest = own.end_block - at;
        int64_t place = (own.image * blocks_of_image + out) * tile.y_plane + own.first_pixel * y_pixel;
        tile.blocks = rest < turns->tile_blocks ? (uint32_t)rest : turns->tile_blocks;
        tile.weights = (const int8_t *)turns->call->tensors[W].data + out * tile.weights_stride;
        if (widens) all->kernels->widen(tile.weights, tile.blocks * tile.weights_stride, words);
        tile.words = widens ? words : NULL;
        tile.end = end_move(all->end, out * block, place);
        tile.rows = own.rows;
        for (int64_t i = 0; i < own.tiles; i++, tile.rows += turns->taps * RT_BLOCKED_PIXELS) {
            tile.pixels = (uint32_t)(own.width + (i < own.wider));
            if (tile.starts != NULL) inputs_total(&tile, block, all->zero, starts);
            all->kernels->product(&tile);
            tile.end = end_move(tile.end, 0, tile.pixels * y_pixel);
        }
    }
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
    all.end = end_of(call, all.blocks * call->codes.block, 0, all.d.act_a, all.d.act_b, all.d.residual_scale);
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
    const rt_conv_input x = {call->tensors[X].data, zeros, 1, true};
    const rt_conv_dims sizes = rt_blocked_conv2d_args_of(call);
    uint32_t blocks = blocks_per_pass(&sizes, call->codes.block, all.kernels->blocks);
    all.turns = rt_conv_turns_divide(call, workers, x, all.kernels->pixels, blocks);
    all.rows_bytes = rt_conv_turn_bytes(&all.turns.d);
    all.lanes = all.turns.d.groups * all.turns.out_blocks * all.turns.block;
    const uint64_t elements = (uint64_t)(all.turns.in_blocks * all.turns.x_plane * d.groups * d.batch);
    all.end = end_of(call, all.lanes, elements, d.act_a, d.act_b, d.residual_scale);
    all.zero = (uint8_t)all.end.zero;
    memset(zeros, all.zero, sizeof zeros);
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
        .zero = all->zero,
        .bytes = w,
        .weights = weights,
        .padded = padded,
        .sums = sums,
        .first_row = own.first_row,
        .end_row = own.end_row,
        .end = end_move(all->end, channel, own.plane * window->out_h * window->out_w * lanes),
    };
    const bool has_offsets = call->codes.bytes & RT_BYTES_OFFSETS;
    if (!has_offsets && all->bytes->depthwise != NULL && all->bytes->depthwise(&rows)) return;
    for (int64_t i = 0; i < count; i++) weights[i] = w[i];
    for (int64_t i = 0; i < count && has_offsets; i++) {
        int32_t offset;
        memcpy(&offset, rows.end.bias + 2 * rows.end.shifts + i % lanes, sizeof offset);
        weights[i] += (float)offset;
    }
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
    const int64_t channels = all.blocks * call->codes.block;
    const uint64_t elements = (uint64_t)(channels * d.in_h * d.in_w * d.batch);
    all.end = end_of(call, channels, elements, d.act_a, d.act_b, d.residual_scale);
    all.zero = (uint8_t)all.end.zero;
    all.turns = rt_plane_turns_divide(workers, d.batch * all.blocks, d.out_h, d.out_w);
    rt_workers_run(workers, rt_plane_turns_count(&all.turns), depthwise_turn, &all);
}

/* --- Winograd's algorithm --- */

#if defined(__SSE2__)
/* A call with its division into turns. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    rt_workers *workers;
    rt_conv_dims d;
    int64_t block, wides, in_blocks, out_blocks, columns; /* columns: of tiles */
    rt_division turns;                                    /* of an image; its pixels are tiles */
    rt_quantized_end end;                                 /* at the tensors' begin */
} tiling;

/* What one turn computes: [point][wides][tile][WIDE] inputs, [point][block][tile][lane] sums. */
typedef struct {
    rt_turn_range range;
    int64_t tiles;
    int16_t *inputs;
    int32_t *sums;
} tiles_share;

static void tiles_transform(const tiling *all, const tiles_share *own) {
    const rt_conv_dims *d = &all->d;
    const int64_t plane = (int64_t)d->in_h * d->in_w * all->block, step = RT_WINOGRAD_WIDE * own->tiles;
    const uint8_t *x = (const uint8_t *)all->call->tensors[X].data + own->range.matrix * all->in_blocks * plane;
    rt_winograd_bytes tile = {.zero = (uint8_t)all->call->codes.zero, .height = d->in_h, .width = d->in_w};
    tile.pad_t = d->pad_t, tile.pad_l = d->pad_l;
    tile.columns = all->columns, tile.first = own->range.first_pixel, tile.end = own->range.end_pixel;
    tile.step = all->wides * step;
    tile.domain = own->inputs;
    for (int64_t wide = 0; wide < all->wides; wide++) {
        const int64_t block = wide * RT_WINOGRAD_WIDE / all->block, last = all->in_blocks - 1;
        tile.x[0] = x + block * plane;
        /* behind the last block anything, which is multiplied by zeros */
        tile.x[1] = all->block == RT_WINOGRAD_WIDE ? tile.x[0] + RT_WINOGRAD_WIDE / 2 : block < last ? tile.x[0] + plane : tile.x[0];
        all->kernels->integer_winograd_input(&tile);
        tile.domain += step;
    }
}

/* The products of all points: `blocks` output blocks from `block` on. */
static void tiles_multiply(const tiling *all, const tiles_share *own, int64_t block, int64_t blocks) {
    const int64_t depth = all->wides * RT_WINOGRAD_WIDE;
    rt_winograd_product tile = {.plane = RT_WINOGRAD_WIDE * own->tiles, .wides = (uint32_t)all->wides};
    tile.weights_stride = depth * all->block;
    tile.sums_plane = own->tiles * all->block;
    tile.blocks = (uint32_t)blocks;
    for (int64_t point = 0; point < POINTS; point++) {
        tile.weights = (const int16_t *)all->call->tensors[W].data + (point * all->out_blocks + block) * tile.weights_stride;
        for (int64_t first = 0; first < own->tiles; first += tile.pixels) {
            const int64_t left = own->tiles - first;
            tile.pixels = left < RT_BLOCKED_PIXELS ? (uint32_t)left : RT_BLOCKED_PIXELS;
            tile.inputs = own->inputs + point * depth * own->tiles + first * RT_WINOGRAD_WIDE;
            tile.sums = own->sums + point * blocks * tile.sums_plane + first * all->block;
            all->kernels->integer_winograd_product(&tile);
        }
    }
}

static void tiles_complete(const tiling *all, const tiles_share *own, int64_t block, int64_t blocks) {
    const rt_conv_dims *d = &all->d;
    rt_winograd_sums tile = {.sums = own->sums, .height = d->out_h, .width = d->out_w};
    tile.columns = all->columns, tile.first = own->range.first_pixel, tile.end_tile = own->range.end_pixel;
    tile.step = blocks * own->tiles * all->block;
    for (int64_t b = block; b < block + blocks; b++, tile.sums += own->tiles * all->block) {
        const int64_t plane = own->range.matrix * all->out_blocks + b;
        tile.end = end_move(all->end, b * all->block, plane * d->out_h * d->out_w * all->block);
        all->kernels->integer_winograd_output(&tile);
    }
}

static void winograd_turn(const void *context, uint32_t turn, uint32_t worker) {
    const tiling *all = context;
    tiles_share own = {.range = rt_division_range(&all->turns, turn)};
    own.tiles = own.range.end_pixel - own.range.first_pixel;
    own.inputs = rt_workers_scratch(all->workers, worker);
    own.sums = (int32_t *)(void *)(own.inputs + POINTS * all->wides * RT_WINOGRAD_WIDE * own.tiles);
    tiles_transform(all, &own);
    for (int64_t block = own.range.first_block; block < own.range.end_block; block += PASS) {
        const int64_t left = own.range.end_block - block, blocks = left < PASS ? left : PASS;
        tiles_multiply(all, &own, block, blocks);
        tiles_complete(all, &own, block, blocks);
    }
}

static void winograd_run(const rt_cpu_call *call, rt_workers *workers) {
    const rt_integer_winograd_args args = rt_integer_winograd_args_of(call);
    tiling all = {.call = call, .workers = workers, .d = rt_blocked_conv2d_args_of(call), .block = call->codes.block};
    all.kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    all.wides = (int64_t)winograd_depth(&all.d) / RT_WINOGRAD_WIDE;
    all.in_blocks = (int64_t)rt_ceil_div((uint64_t)all.d.in_c, (uint64_t)all.block);
    all.out_blocks = (int64_t)rt_ceil_div((uint64_t)all.d.out_c, (uint64_t)all.block);
    all.columns = (int64_t)rt_ceil_div((uint64_t)all.d.out_w, SIDE);
    all.end = end_of(call, all.out_blocks * all.block, 0, args.act_a, args.act_b, args.residual_scale);
    rt_divisible work = {.matrices = (uint64_t)all.d.batch,
                         .pixels = (uint64_t)all.columns * rt_ceil_div((uint64_t)all.d.out_h, SIDE),
                         .most_pixels = winograd_tiles(&all.d),
                         .least_pixels = RT_BLOCKED_PIXELS,
                         .blocks = (uint64_t)all.out_blocks,
                         .pass = PASS,
                         .start = TRANSFORM_WORK,
                         .weight = 1};
    all.turns = rt_divide(&work, rt_workers_count(workers));
    rt_workers_run(workers, rt_division_turns(&all.turns), winograd_turn, &all);
}

#else
static const char *winograd_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    (void)call, (void)needs;
    return "only x86 has Winograd's algorithm in integers";
}

#define winograd_run NULL
#endif

const rt_cpu_operator rt_cpu_quantized_conv2d = {RT_QUANTIZED_CONV2D_ROW, .check = conv_check, .run = conv_run};
const rt_cpu_operator rt_cpu_quantized_depthwise = {
    RT_QUANTIZED_DEPTHWISE_ROW, .check = depthwise_check, .run = depthwise_run};
const rt_cpu_operator rt_cpu_integer_winograd = {
    RT_INTEGER_WINOGRAD_ROW, .check = winograd_check, .run = winograd_run};
