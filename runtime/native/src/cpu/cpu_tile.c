/* RT_ISA names the instruction set that this file is compiled for; it is a suffix of the exported table.
 *
 * Vectors are the compiler's (GCC and clang: vector_size), so the same source serves every set: LANES floats a
 * register, and a tile whose sums stay in registers from the first tap to the last.
 */
#include "cpu_tile.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu_math.h"

#define NAME_JOIN(prefix, isa) prefix##isa
#define NAME(prefix, isa) NAME_JOIN(prefix, isa)
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

/* Floats of a register, and the tile whose sums fill the registers but for those of weights and inputs. */
#if defined(__AVX512F__)
#define LANES 16
enum { PIXELS = 6, BLOCKS = 2 };
#elif defined(__AVX__)
#define LANES 8
enum { PIXELS = 6, BLOCKS = 1 };
#elif defined(__aarch64__)
#define LANES 4
enum { PIXELS = 6, BLOCKS = 1 };
#else
#define LANES 4
enum { PIXELS = 2, BLOCKS = 1 };
#endif
enum { PARTS = RT_CPU_BLOCK / LANES, DEPTHWISE_PIXELS = PIXELS < 4 ? PIXELS : 4 };

#include "cpu_vector.h"

/* Each lane within its bounds, written so that a NaN stays a NaN. */
INLINE lanes clamp(lanes value, lanes low, lanes high) {
    value = choose(value < low, low, value);
    return choose(value > high, high, value);
}

/* Completes sums to outputs and stores them: any number of channels of one pixel, one by one, with any activation. */
static void finish_some(const rt_epilogue *end, const float *sums, uint64_t pixel, uint64_t channel, uint64_t count) {
    float *y = end->y + (int64_t)pixel * end->y_stride + (int64_t)channel;
    const float *residual =
        end->residual ? end->residual + (int64_t)pixel * end->residual_stride + (int64_t)channel : NULL;
    for (uint64_t i = 0; i < count; i++) {
        float v = sums[i];
        if (end->bias != NULL) v += end->bias[channel + i];
        if (residual != NULL) v += residual[i];
        y[i] = rt_activate(end->activation, v, end->a, end->b);
    }
}

/* Completes sums of one pixel to outputs and stores them: whole registers while the activation is a clamp, then one by
 * one. `channel` counts from the first of the tensor, not of the tile. */
INLINE void finish(const rt_epilogue *end, const float *sums, uint64_t pixel, uint64_t channel, uint64_t count) {
    float *y = end->y + (int64_t)pixel * end->y_stride + (int64_t)channel;
    const float *residual =
        end->residual ? end->residual + (int64_t)pixel * end->residual_stride + (int64_t)channel : NULL;
    const lanes low = (lanes){0} + end->a, high = (lanes){0} + end->b;
    uint64_t done = 0;
    for (; end->activation == RT_UNARY_CLAMP && done + LANES <= count; done += LANES) {
        lanes value = load(sums + done);
        if (end->bias != NULL) value += load(end->bias + channel + done);
        if (residual != NULL) value += load(residual + done);
        store(y + done, clamp(value, low, high));
    }
    if (done < count) finish_some(end, sums + done, pixel, channel + done, count - done);
}

/* All sums of a tile of constant size, in registers; stored pixel by pixel, then by channel. */
INLINE void product_sum(const rt_tile *tile, float *sums, int pixels, int blocks) {
    lanes sum[PIXELS][BLOCKS * PARTS] = {0};
    const float *w = tile->weights;
    for (uint32_t tap = 0; tap < tile->taps; tap++) {
        const float *x[PIXELS]; /* the inputs of this tap; each is multiplied with a whole register of weights */
        for (int p = 0; p < pixels; p++) x[p] = tile->rows[tap * RT_TILE_PIXELS + (uint32_t)p];
        for (uint32_t c = 0; c < tile->depth; c++, w += tile->weights_stride) {
            lanes weight[BLOCKS * PARTS];
            for (int i = 0; i < blocks * PARTS; i++) {
                weight[i] = load(w + i / PARTS * tile->block_stride + i % PARTS * LANES);
            }
            for (int p = 0; p < pixels; p++) {
                for (int i = 0; i < blocks * PARTS; i++) sum[p][i] += weight[i] * x[p][c];
            }
        }
    }
    for (int p = 0; p < pixels; p++) {
        for (int i = 0; i < blocks * PARTS; i++) store(sums + (p * blocks * PARTS + i) * LANES, sum[p][i]);
    }
}

/* rt_tile_kernels.product. Fewer pixels than a tile has are summed as one or as all, and only theirs are stored. */
static void product(const rt_tile *tile) {
    /* Four constant sizes, so that the sums of each stay in registers. */
    float sums[PIXELS * BLOCKS * RT_CPU_BLOCK] __attribute__((aligned(64)));
    if (tile->pixels == 1 && tile->blocks == 1) {
        product_sum(tile, sums, 1, 1);
    } else if (tile->pixels == 1) {
        product_sum(tile, sums, 1, BLOCKS);
    } else if (tile->blocks == 1) {
        product_sum(tile, sums, PIXELS, 1);
    } else {
        product_sum(tile, sums, PIXELS, BLOCKS);
    }
    for (uint32_t p = 0; p < tile->pixels; p++) {
        finish(tile->epilogue, sums + p * tile->blocks * RT_CPU_BLOCK, tile->first_pixel + p, tile->first_channel,
               tile->channels);
    }
}

/* Sums RT_CPU_BLOCK channels of DEPTHWISE_PIXELS pixels in registers. Those of pixels that the tile does not have are
 * sums of valid rows too (rt_tile), and the caller drops them. */
INLINE void depthwise_sum(const rt_depthwise_tile *tile, uint64_t channel, float *sums) {
    lanes sum[DEPTHWISE_PIXELS][PARTS] = {0};
    const float *w = tile->weights + channel;
    for (uint32_t tap = 0; tap < tile->taps; tap++, w += tile->channels) {
        for (int i = 0; i < PARTS; i++) {
            lanes weight = load(w + i * LANES);
            for (int p = 0; p < DEPTHWISE_PIXELS; p++) {
                sum[p][i] += weight * load(tile->rows[tap * RT_TILE_PIXELS + (uint32_t)p] + channel + i * LANES);
            }
        }
    }
    for (int p = 0; p < DEPTHWISE_PIXELS; p++) {
        for (int i = 0; i < PARTS; i++) store(sums + p * RT_CPU_BLOCK + i * LANES, sum[p][i]);
    }
}

/* Sums the channels behind the last whole block, one by one. */
static void depthwise_rest(const rt_depthwise_tile *tile, uint64_t channel, float *sums) {
    for (uint32_t p = 0; p < tile->pixels; p++) {
        for (uint64_t c = channel; c < tile->channels; c++) {
            float sum = 0.0f;
            for (uint32_t tap = 0; tap < tile->taps; tap++) {
                sum += tile->rows[tap * RT_TILE_PIXELS + p][c] * tile->weights[tap * tile->channels + c];
            }
            sums[p * RT_CPU_BLOCK + c - channel] = sum;
        }
    }
}

/* rt_tile_kernels.depthwise: a block of channels after another. */
static void depthwise(const rt_depthwise_tile *tile) {
    float sums[RT_TILE_PIXELS * RT_CPU_BLOCK] __attribute__((aligned(64)));
    for (uint64_t channel = 0; channel < tile->channels; channel += RT_CPU_BLOCK) {
        uint64_t rest = tile->channels - channel;
        uint64_t count = rest < RT_CPU_BLOCK ? rest : RT_CPU_BLOCK;
        if (count == RT_CPU_BLOCK) {
            depthwise_sum(tile, channel, sums);
        } else {
            depthwise_rest(tile, channel, sums);
        }
        for (uint32_t p = 0; p < tile->pixels; p++) {
            finish(tile->epilogue, sums + p * RT_CPU_BLOCK, tile->first_pixel + p, channel, count);
        }
    }
}

const rt_tile_kernels NAME(rt_tile_kernels_, RT_ISA) = {TEXT(RT_ISA),     PIXELS,  BLOCKS,
                                                        DEPTHWISE_PIXELS, product, depthwise};
