/* The tile of cpu_lanes_product.c in half arithmetic (ARM's FEAT_FP16): registers hold eight sums instead of four. Weights
 * are halves, inputs become such as they are read, and the sums of one tile are added to floats. */
#include "cpu_half.h"
#include "cpu_lanes.h"

/* Here, since compilers' flags for it differ. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("+fp16"))), apply_to = function)
#else
#pragma GCC target("+fp16")
#endif

/* Pixels x registers of sums, which fill the registers but for those of weights and inputs. */
#define PIXELS 5
#define REGISTERS 4
enum { HALVES = 8, PARTS_OF_SUMS = RT_BLOCK / HALVES, BLOCKS = REGISTERS / PARTS_OF_SUMS };

/* Adds the products of channel `k` of the inputs, a constant. */
#define CHANNEL_ADD(k)                                                                                                 \
    UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {                                                        \
        float16x8_t weight = vld1q_f16(w + i / PARTS_OF_SUMS * stride + k * RT_BLOCK + i % PARTS_OF_SUMS * HALVES);    \
        UNROLLED for (int p = 0; p < pixels; p++) sum[p][i] = vfmaq_laneq_f16(sum[p][i], weight, inputs[p], k);        \
    }                                                                                                                  \
    __asm__ volatile("" : "+w"(sum[0][0]) : : "memory"); /* keeps further weights from being loaded before */

/* Adds the products of as many channels as a register holds, from c on. */
INLINE void channels_add(float16x8_t sum[RT_TILE_PIXELS][REGISTERS], const float *const *x, uint32_t c, const float16_t *w,
                         int64_t stride, int pixels, int blocks) {
    float16x8_t inputs[RT_TILE_PIXELS];
    UNROLLED for (int p = 0; p < pixels; p++) {
        inputs[p] = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(x[p] + c)), vld1q_f32(x[p] + c + LANES));
    }
    CHANNEL_ADD(0)
    CHANNEL_ADD(1)
    CHANNEL_ADD(2)
    CHANNEL_ADD(3)
    CHANNEL_ADD(4)
    CHANNEL_ADD(5)
    CHANNEL_ADD(6)
    CHANNEL_ADD(7)
}

/* Those of channel c. */
INLINE void channel_add(float16x8_t sum[RT_TILE_PIXELS][REGISTERS], const float *const *x, uint32_t c, const float16_t *w,
                        int64_t stride, int pixels, int blocks) {
    UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {
        float16x8_t weight = vld1q_f16(w + i / PARTS_OF_SUMS * stride + i % PARTS_OF_SUMS * HALVES);
        UNROLLED for (int p = 0; p < pixels; p++) {
            sum[p][i] = vfmaq_laneq_f16(sum[p][i], weight, vdupq_n_f16((float16_t)x[p][c]), 0);
        }
    }
}

/* Those of all channels of a tap. */
INLINE void tap_add(const rt_blocked_tile *tile, float16x8_t sum[RT_TILE_PIXELS][REGISTERS], uint32_t t, int pixels, int blocks) {
    const void *const *rows = tile->rows + t * RT_BLOCKED_PIXELS;
    const float16_t *w = (const float16_t *)(const void *)(tile->halves + t * tile->tap_stride);
    int64_t offset = tile->offset, stride = tile->weights_stride;
    for (uint32_t c = 0; c < tile->channels; c += RT_BLOCK, offset += tile->plane, w += RT_BLOCK * RT_BLOCK) {
        const float *x[PIXELS];
        uint32_t count = tile->channels - c < RT_BLOCK ? tile->channels - c : RT_BLOCK, i = 0;
        UNROLLED for (int p = 0; p < pixels; p++) x[p] = rows[p] == tile->zeros ? rows[p] : (const float *)rows[p] + offset;
        for (; i + HALVES <= count; i += HALVES) channels_add(sum, x, i, w + i * RT_BLOCK, stride, pixels, blocks);
        for (; i < count; i++) channel_add(sum, x, i, w + i * RT_BLOCK, stride, pixels, blocks);
    }
}

/* Adds four sums to what they start at, and stores them within the activation's bounds; `at`: elements from the tile's
 * first output on, `channel`: the first lane. */
INLINE void sums_store(const rt_blocked_tile *tile, lanes sum, int64_t at, int channel, lanes low, lanes high) {
    if (tile->bias == NULL) {
        sum += load(tile->y + at);
    } else {
        sum += load(tile->bias + channel);
        if (tile->residual != NULL) sum += load(tile->residual + at);
    }
    store(tile->y + at, clamp(sum, low, high));
}

/* A tile of constant size. */
INLINE void tile_compute(const rt_blocked_tile *given, int pixels, int blocks) {
    const rt_blocked_tile tile = *given; /* stores could change it, for all that the compiler knows */
    float16x8_t sum[RT_TILE_PIXELS][REGISTERS];
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) sum[p][i] = vdupq_n_f16(0);
    }
    for (uint32_t t = 0; t < tile.taps; t++) tap_add(&tile, sum, t, pixels, blocks);
    lanes low = lower_bound(tile.activation, tile.a), high = upper_bound(tile.activation, tile.b);
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {
            int lane = i % PARTS_OF_SUMS * HALVES, channel = i / PARTS_OF_SUMS * RT_BLOCK + lane;
            int64_t at = i / PARTS_OF_SUMS * tile.y_plane + p * RT_BLOCK + lane;
            sums_store(&tile, (lanes)vcvt_f32_f16(vget_low_f16(sum[p][i])), at, channel, low, high);
            sums_store(&tile, (lanes)vcvt_high_f32_f16(sum[p][i]), at + LANES, channel + LANES, low, high);
        }
    }
}

#define VARIANT(pixels, blocks)                                                                                        \
    static void product_##pixels##_##blocks(const rt_blocked_tile *tile) {                                             \
        tile_compute(tile, pixels, blocks < BLOCKS ? blocks : BLOCKS);                                                 \
    }
#define VARIANTS(blocks) VARIANT(1, blocks) VARIANT(2, blocks) VARIANT(3, blocks) VARIANT(4, blocks) VARIANT(5, blocks)
#define ENTRY(pixels, blocks) blocks <= BLOCKS ? product_##pixels##_##blocks : NULL
#define ROW(b) {ENTRY(1, b), ENTRY(2, b), ENTRY(3, b), ENTRY(4, b), ENTRY(5, b)}
VARIANTS(1)
VARIANTS(2)
VARIANTS(3)
VARIANTS(4)
static void (*const variants[4][PIXELS])(const rt_blocked_tile *tile) = {ROW(1), ROW(2), ROW(3), ROW(4)};

/* rt_half_kernels.product */
static void product(const rt_blocked_tile *tile) {
    variants[tile->blocks - 1][tile->pixels - 1](tile);
    if (tile->activation == RT_UNARY_CLAMP) return;
    for (uint32_t b = 0; b < tile->blocks; b++) {
        tile->tiles->apply(tile->activation, tile->a, tile->b, tile->y + b * tile->y_plane, tile->pixels * RT_BLOCK);
    }
}

/* --- rows of a matrix --- */

#if RT_BLOCK == 16
/* Those of a constant number of pixels. */
INLINE void rows_sum(const rt_tile *tile, const float16_t *w, float *sums, int pixels) {
    memset(sums, 0, (size_t)pixels * RT_BLOCK * sizeof *sums);
    for (uint32_t t = 0; t < tile->taps; t++) {
        const float *x[RT_TILE_PIXELS];
        UNROLLED for (int p = 0; p < pixels; p++) x[p] = tile->rows[t * RT_TILE_PIXELS + (uint32_t)p];
        for (uint32_t c = 0; c < tile->depth;) {
            uint32_t end = tile->depth - c < RT_HALF_PRODUCTS ? tile->depth : c + RT_HALF_PRODUCTS;
            float16x8_t sum[RT_TILE_PIXELS][REGISTERS];
            UNROLLED for (int p = 0; p < pixels; p++) sum[p][0] = sum[p][1] = vdupq_n_f16(0);
            for (; c + HALVES <= end; c += HALVES, w += HALVES * RT_BLOCK) channels_add(sum, x, c, w, 0, pixels, 1);
            for (; c < end; c++, w += RT_BLOCK) channel_add(sum, x, c, w, 0, pixels, 1);
            UNROLLED for (int i = 0; i < pixels * PARTS_OF_SUMS; i++) {
                float *own = sums + i * HALVES;
                float16x8_t added = sum[i / PARTS_OF_SUMS][i % PARTS_OF_SUMS];
                store(own, load(own) + (lanes)vcvt_f32_f16(vget_low_f16(added)));
                store(own + LANES, load(own + LANES) + (lanes)vcvt_high_f32_f16(added));
            }
        }
    }
}

/* rt_half_kernels.rows */
static void rows(const rt_tile *tile, const uint16_t *halves, float *sums) {
    const float16_t *w = (const float16_t *)(const void *)halves;
    switch (tile->pixels) {
        case 3: rows_sum(tile, w, sums, 3); break;
        case 4: rows_sum(tile, w, sums, 4); break;
        case 5: rows_sum(tile, w, sums, 5); break;
        default: rows_sum(tile, w, sums, 6); break;
    }
}
#else
#define rows NULL
#endif

extern const rt_half_kernels NAME(rt_half_kernels_);
const rt_half_kernels NAME(rt_half_kernels_) = {PIXELS, BLOCKS, product, rows};

#if defined(__clang__)
#pragma clang attribute pop
#endif
