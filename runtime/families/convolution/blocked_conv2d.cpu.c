/* blocked_conv2d: direct convolution of blocked activations. Padding is never stored: taps outside of the input read
 * zeros. A row-major input is blocked_first.cpu.c's.
 *
 * Weights pass over all tiles of a turn (blocked_turns.c), so many input channels at a time that they stay in the cache,
 * and the sums so far wait in the output. Weights in half become floats there, in the worker's memory, unless the CPU is
 * to multiply in half, and can (HALF_SUMS). Where there are few output channels, as of an image, most lanes of a block
 * of them would compute nothing: inputs lie in the lanes then, and the weights are put in that order first.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_half.h"
#include "blocked_convolution.h"

enum { WEIGHT_BYTES = 48 << 10 };

static const float zeros[16];

/* A call with its division into turns. */
typedef struct {
    rt_conv_turns turns;
    void (*product)(const rt_blocked_tile *tile);
    int64_t tile_blocks;
    bool in_half;  /* the product reads weights in half */
    float *few;    /* weights of few output channels, [output][tap][channel]; NULL: as they lie */
    int64_t chunk; /* channels of a tap that are summed at once */
} division;

/* The most bytes of the floats that a chunk's weights in half become, UINT64_MAX where they overflow. */
static uint64_t floats_bytes(const rt_cpu_call *call, const rt_conv_dims *d) {
    uint64_t block = call->codes.block, taps = rt_product3(d->k_h, d->k_w, 1);
    uint64_t bytes = rt_product(taps, RT_BLOCKED_BLOCKS * block * block * sizeof(float));
    return bytes > WEIGHT_BYTES ? bytes : WEIGHT_BYTES;
}

/* Input channels, filled up to whole blocks. */
static int64_t whole_channels(const rt_cpu_call *call, const rt_conv_dims *d) {
    return (int64_t)rt_blocked_elements(1, (uint64_t)d->in_c, 1, call->codes.block);
}

/* The loops in half that a call asks for; NULL: none, or the CPU has no such arithmetic. */
static const rt_half_kernels *half_of(const rt_cpu_call *call) {
    return call->codes.half_sums ? rt_half_kernels_of(call->tiles, call->codes.block) : NULL;
}

/* Whether the lanes are better filled with inputs. */
static bool has_few(const rt_cpu_call *call, const rt_conv_dims *d) {
    bool fills = d->groups == 1 && d->out_c <= RT_FEW_CHANNELS && (uint32_t)d->in_c >= call->codes.block;
    return fills && half_of(call) == NULL && !call->codes.first;
}

/* Bytes of the weights of few output channels. */
static uint64_t few_bytes(const rt_cpu_call *call, const rt_conv_dims *d) {
    uint64_t inputs = rt_product3(d->k_h, d->k_w, (int32_t)whole_channels(call, d));
    return rt_product(inputs, RT_FEW_CHANNELS * sizeof(float));
}

static const char *conv_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    const char *problem = rt_conv_sizes_check(call, &d);
    if (problem != NULL) return problem;
    if (call->codes.first && call->codes.weight_bits) return "a first layer's weights are floats";
    if (call->codes.half_sums && !call->codes.weight_bits) return "it multiplies in half, and its weights are floats";
    if (call->codes.first) return rt_blocked_first_check(call, needs);
    uint64_t images = rt_product((uint64_t)d.batch, (uint64_t)d.groups);
    uint64_t pixels = rt_product((uint64_t)d.in_h, (uint64_t)d.in_w);
    uint64_t x = rt_blocked_elements(images, (uint64_t)d.in_c, pixels, call->codes.block);
    if (!rt_flat_fits(&call->tensors[RT_CONV_X], x)) return "the input exceeds its pool";
    problem = rt_conv_tensors_check(call, &d, rt_product3(d.k_h, d.k_w, d.in_c), needs);
    if (problem != NULL) return problem;
    needs->scratch_bytes = rt_conv_turn_bytes(&d);
    if (call->codes.weight_bits) needs->scratch_bytes = rt_sum(needs->scratch_bytes, floats_bytes(call, &d));
    if (has_few(call, &d)) needs->scratch_bytes = rt_sum(needs->scratch_bytes, few_bytes(call, &d));
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
    } else {
        tile.halves += first * block;
        if (!all->in_half) weights_widen(&tile, block, floats);
    }
    if (first > 0) tile.bias = NULL, tile.residual = NULL;
    if (rest > all->chunk) tile.activation = RT_UNARY_CLAMP, tile.a = -INFINITY, tile.b = INFINITY;
    return rt_conv_without_function(tile);
}

/* Lets a chunk of the weights pass over all tiles of a share. */
static void chunk_run(const division *all, const rt_conv_share *own, rt_blocked_tile tile) {
    int64_t block = all->turns.block;
    tile.rows = own->rows;
    tile.y += own->first_pixel * block;
    if (tile.residual != NULL) tile.residual += own->first_pixel * block;
    for (int64_t i = 0; i < own->tiles; i++, tile.rows += all->turns.taps * RT_BLOCKED_PIXELS) {
        tile.pixels = (uint32_t)(own->width + (i < own->wider));
        all->product(&tile);
        tile.y += tile.pixels * block;
        if (tile.residual != NULL) tile.residual += tile.pixels * block;
    }
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
        whole.tap_stride = turns->d.in_c * turns->block;
        if (all->few != NULL) {
            whole.weights = all->few, whole.halves = NULL;
            whole.tap_stride = whole_channels(turns->call, &turns->d);
            whole.weights_stride = turns->taps * whole.tap_stride;
        }
        whole.blocks = (uint32_t)(blocks / passes + (pass < blocks % passes));
        for (int64_t channel = 0; channel < turns->d.in_c; channel += all->chunk) {
            chunk_run(all, &own, chunk_tile(all, &whole, channel, floats));
        }
        rt_conv_apply(&whole, own.first_pixel, own.tiles * own.width + own.wider, turns->block);
        block += whole.blocks;
    }
}

/* Puts the weights of few output channels, [tap][channel][lane], in their order; zeros behind the last of either. */
static void few_pack(const rt_conv_turns *turns, float *target) {
    int64_t inputs = turns->d.in_c, whole = whole_channels(turns->call, &turns->d), block = turns->block;
    const rt_cpu_tensor *weights = &turns->call->tensors[RT_CONV_W];
    memset(target, 0, (size_t)few_bytes(turns->call, &turns->d));
    for (int64_t i = 0; i < turns->taps * inputs; i++) {
        float widened[16];
        const float *own = (const float *)weights->data + i * block;
        if (turns->call->codes.weight_bits) {
            turns->call->tiles->halves_to_floats((const uint16_t *)weights->data + i * block, (uint64_t)block, widened);
            own = widened;
        }
        for (int64_t o = 0; o < turns->d.out_c; o++) target[(o * turns->taps + i / inputs) * whole + i % inputs] = own[o];
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
    bool is_few = has_few(call, &d);
    if (is_few) all.product = kernels->few, all.tile_blocks = 1;
    const rt_conv_input x = {call->tensors[RT_CONV_X].data, zeros, sizeof(float), false};
    uint32_t tile_pixels = all.in_half ? half->pixels : is_few ? kernels->few_pixels : kernels->pixels;
    all.turns = rt_conv_turns_divide(call, workers, x, tile_pixels, (uint32_t)all.tile_blocks);
    int64_t block = all.turns.block, bytes = all.turns.taps * all.tile_blocks * block * block * (int64_t)sizeof(float);
    all.chunk = (WEIGHT_BYTES / bytes > 1 ? WEIGHT_BYTES / bytes : 1) * block;
    if (all.in_half) all.chunk = (int64_t)rt_ceil_div(RT_HALF_PRODUCTS, (uint64_t)(all.turns.taps * block)) * block;
    if (is_few) {
        all.few = (float *)(void *)((uint8_t *)rt_workers_scratch(workers, 0) + rt_conv_turn_bytes(&d));
        few_pack(&all.turns, all.few);
        all.chunk = d.in_c;
    }
    rt_workers_run(workers, rt_division_turns(&all.turns.turns), turn_run, &all);
}

const rt_cpu_operator rt_cpu_blocked_conv2d = {
    RT_BLOCKED_CONV2D_ROW, .check = conv_check, .run = conv_run, .narrow_weights = RT_READS_HALVES};
