/* blocked_conv2d: direct convolution of blocked activations. Padding is never stored: taps outside of the input read
 * zeros. A row-major input is blocked_first.cpu.c's.
 *
 * Weights pass over all tiles of a turn (blocked_turns.c), so many input channels at a time that they stay in the cache,
 * and the sums so far wait in the output. Weights in half become floats there, in the worker's memory, unless the CPU is
 * to multiply in half, and can (HALF_SUMS). Where there are few output channels, as of an image, most lanes of a block
 * of them would compute nothing: FEW says that inputs lie in the lanes, and weights are
 * [RT_FEW_CHANNELS][k_h][k_w][in_c, filled up to whole blocks], floats, zeros where there is no channel.
 */
#include <math.h>
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_half.h"
#include "blocked_convolution.h"

static const float zeros[16];

/* A call with its division into turns. */
typedef struct {
    rt_conv_turns turns;
    void (*product)(const rt_blocked_tile *tile);
    int64_t tile_blocks;
    bool in_half;       /* the product reads weights in half */
    int64_t tap_stride; /* of the weights */
    int64_t chunk;      /* channels of a tap that are summed at once */
} division;

/* The most bytes of the floats that a chunk's weights in half become, UINT64_MAX where they overflow. */
static uint64_t floats_bytes(const rt_cpu_call *call, const rt_conv_dims *d) {
    uint64_t block = call->codes.block, taps = rt_product3(d->k_h, d->k_w, 1);
    uint64_t bytes = rt_product(taps, RT_BLOCKED_BLOCKS * block * block * sizeof(float));
    return bytes > RT_BLOCKED_WEIGHT_BYTES ? bytes : RT_BLOCKED_WEIGHT_BYTES;
}

/* The loops in half that a call asks for; NULL: none, or the CPU has no such arithmetic. */
static const rt_half_kernels *half_of(const rt_cpu_call *call) {
    return call->codes.half_sums ? rt_half_kernels_of(call->tiles, call->codes.block) : NULL;
}

/* Elements of the weights. */
static uint64_t weights_of(const rt_cpu_call *call, const rt_conv_dims *d) {
    if (!call->codes.few) return rt_conv_weights(call, d, rt_product3(d->k_h, d->k_w, d->in_c));
    uint64_t taps = rt_product3(d->k_h, d->k_w, RT_FEW_CHANNELS);
    return rt_blocked_elements(taps, (uint64_t)d->in_c, 1, call->codes.block);
}

static const char *conv_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    const char *problem = rt_conv_sizes_check(call, &d);
    if (problem != NULL) return problem;
    if (call->codes.first && call->codes.weight_bits) return "a first layer's weights are floats";
    if (call->codes.half_sums && !call->codes.weight_bits) return "it multiplies in half, and its weights are floats";
    if (call->codes.few && (d.groups > 1 || d.out_c > RT_FEW_CHANNELS)) return "it has more outputs than few";
    if (call->codes.few && (call->codes.first || call->codes.weight_bits)) return "weights of few outputs are floats of blocks";
    if (call->codes.first) return rt_blocked_first_check(call, needs);
    uint64_t images = rt_product((uint64_t)d.batch, (uint64_t)d.groups);
    uint64_t pixels = rt_product((uint64_t)d.in_h, (uint64_t)d.in_w);
    uint64_t x = rt_blocked_elements(images, (uint64_t)d.in_c, pixels, call->codes.block);
    if (!rt_flat_fits(&call->tensors[RT_CONV_X], x)) return "the input exceeds its pool";
    problem = rt_conv_tensors_check(call, &d, rt_product3(d.k_h, d.k_w, d.in_c), weights_of(call, &d), needs);
    if (problem != NULL) return problem;
    needs->scratch_bytes = rt_conv_turn_bytes(&d);
    if (call->codes.weight_bits) needs->scratch_bytes = rt_sum(needs->scratch_bytes, floats_bytes(call, &d));
    return NULL;
}

/* --- turns --- */

/* Makes floats of the weights of a tile, which lie there without those of other chunks. */
static void weights_widen(rt_blocked_tile *tile, int64_t block, float *floats) {
    const uint16_t *halves = tile->halves;
    int64_t count = tile->channels * block;
    tile->weights = floats;
    for (int64_t b = 0; b < tile->blocks; b++, halves += tile->weights_stride) {
        for (int64_t t = 0; t < tile->taps; t++, floats += count) {
            tile->tiles->halves_to_floats(halves + t * tile->tap_stride, (uint64_t)count, floats);
        }
    }
    tile->tap_stride = count;
    tile->weights_stride = tile->taps * count;
}

/* Makes a tile that sums only a chunk of the channels, from `first` on; `floats`: memory for its weights. */
static rt_blocked_tile chunk_tile(const division *all, const rt_blocked_tile *whole, int64_t first, float *floats) {
    rt_blocked_tile tile = *whole;
    int64_t rest = all->turns.d.in_c - first, block = all->turns.block;
    tile.channels = (uint32_t)(rest < all->chunk ? rest : all->chunk);
    tile.offset = first / block * all->turns.x_plane;
    if (tile.halves == NULL) {
        tile.weights += first * block;
        if (rest > all->chunk) tile.ahead = all->chunk * block;
        else if (tile.ahead != 0) tile.ahead -= first * block;
    } else {
        tile.ahead = 0;
        tile.halves += first * block;
        if (!all->in_half) weights_widen(&tile, block, floats);
    }
    if (first > 0) tile.bias = NULL, tile.residual = NULL;
    if (rest > all->chunk) tile.activation = RT_UNARY_CLAMP, tile.a = -INFINITY, tile.b = INFINITY;
    return rt_conv_without_function(tile);
}

/* Computes tile number i of a share and moves to the next. */
static inline void tile_run(const division *all, const rt_conv_share *own, rt_blocked_tile *tile, int64_t i) {
    int64_t block = all->turns.block;
    tile->pixels = (uint32_t)(own->width + (i < own->wider));
    all->product(tile);
    tile->y += tile->pixels * block;
    if (tile->residual != NULL) tile->residual += tile->pixels * block;
    tile->rows += all->turns.taps * RT_BLOCKED_PIXELS;
}

/* Lets a chunk of the weights pass over all tiles of a share; the first of them each ask for a block of what follows. */
static void chunk_run(const division *all, const rt_conv_share *own, rt_blocked_tile tile) {
    int64_t block = all->turns.block, i = 0;
    int64_t asking = tile.ahead == 0 ? 0 : own->tiles < tile.blocks ? own->tiles : tile.blocks;
    tile.rows = own->rows;
    tile.y += own->first_pixel * block;
    if (tile.residual != NULL) tile.residual += own->first_pixel * block;
    for (; i < asking; i++, tile.ahead += tile.weights_stride) tile_run(all, own, &tile, i);
    for (tile.ahead = 0; i < own->tiles; i++) tile_run(all, own, &tile, i);
}

/* Every block of the share over all its tiles, some at a time: as many each time, or one less. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    const rt_conv_turns *turns = &all->turns;
    rt_conv_share own = rt_conv_turn_share(turns, turn, worker);
    uint8_t *scratch = rt_workers_scratch(turns->workers, worker); /* row pointers, then floats */
    float *floats = (float *)(void *)(scratch + rt_conv_turn_bytes(&turns->d));
    int64_t blocks = own.end_block - own.first_block;
    int64_t passes = (int64_t)rt_ceil_div((uint64_t)blocks, (uint64_t)all->tile_blocks);
    for (int64_t pass = 0, block = own.first_block + own.group * turns->out_blocks; pass < passes; pass++) {
        rt_blocked_tile whole = rt_conv_tile(turns->call, &turns->d, own.image, block, turns->taps * turns->d.in_c);
        whole.zeros = zeros;
        whole.taps = (uint32_t)turns->taps;
        whole.plane = turns->x_plane;
        whole.tap_stride = all->tap_stride;
        whole.weights_stride = turns->taps * all->tap_stride;
        whole.blocks = (uint32_t)(blocks / passes + (pass < blocks % passes));
        if (block + whole.blocks < turns->d.groups * turns->out_blocks) whole.ahead = whole.blocks * whole.weights_stride;
        for (int64_t channel = 0; channel < turns->d.in_c; channel += all->chunk) {
            chunk_run(all, &own, chunk_tile(all, &whole, channel, floats));
        }
        rt_conv_apply(&whole, own.first_pixel, own.tiles * own.width + own.wider, turns->block);
        block += whole.blocks;
    }
}

static void conv_run(const rt_cpu_call *call, rt_workers *workers) {
    if (call->codes.first) {
        rt_blocked_first_run(call, workers);
        return;
    }
    const rt_blocked_kernels *kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    const rt_half_kernels *half = half_of(call);
    division all = {.product = kernels->product, .tile_blocks = kernels->blocks, .in_half = half != NULL};
    if (all.in_half) all.product = half->product, all.tile_blocks = half->blocks;
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    bool is_few = call->codes.few;
    if (is_few) all.product = kernels->few, all.tile_blocks = 1;
    const rt_conv_input x = {call->tensors[RT_CONV_X].data, zeros, sizeof(float), false};
    uint32_t tile_pixels = all.in_half ? half->pixels : is_few ? kernels->few_pixels : kernels->pixels;
    all.turns = rt_conv_turns_divide(call, workers, x, tile_pixels, (uint32_t)all.tile_blocks);
    int64_t block = all.turns.block, bytes = all.turns.taps * all.tile_blocks * block * block * (int64_t)sizeof(float);
    uint64_t most = kernels->weight_bytes / (uint64_t)bytes, blocks = (uint64_t)all.turns.in_blocks;
    all.chunk = (int64_t)rt_ceil_div(blocks, rt_ceil_div(blocks, most > 1 ? most : 1)) * block; /* as many in each */
    if (all.in_half) all.chunk = (int64_t)rt_ceil_div(RT_HALF_PRODUCTS, (uint64_t)(all.turns.taps * block)) * block;
    all.tap_stride = is_few ? all.turns.in_blocks * block : d.in_c * block;
    if (is_few) all.chunk = d.in_c;
    rt_workers_run(workers, rt_division_turns(&all.turns.turns), turn_run, &all);
}

const rt_cpu_operator rt_cpu_blocked_conv2d = {
    RT_BLOCKED_CONV2D_ROW, .check = conv_check, .run = conv_run, .narrow_weights = RT_READS_HALVES};
