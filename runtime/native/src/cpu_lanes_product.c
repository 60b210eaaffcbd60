/* The tile whose sums stay in registers: every input element is multiplied with whole registers of weights. */
#include "cpu_lanes.h"

/* Pixels x registers of sums, which fill the registers but for those of weights and inputs. */
#if LANES == 16 || defined(__aarch64__)
#define PIXELS 6
#define REGISTERS 4
#elif LANES == 8
#define PIXELS 6
#define REGISTERS 2
#else
#define PIXELS 3
#define REGISTERS 4
#endif
#define BLOCKS (REGISTERS * LANES / RT_BLOCK)

/* What the sums of a block and pixel start at. */
INLINE lanes start(const rt_blocked_tile *tile, const float *y, int block, int part) {
    if (tile->bias == NULL) return load(y);
    lanes value = load(tile->bias + block * RT_BLOCK + part * LANES);
    return tile->residual ? value + load(tile->residual + (y - tile->y)) : value;
}

/* Where a register of a tile is stored. */
INLINE float *place(const rt_blocked_tile *tile, int pixel, int i) {
    return tile->y + i / PARTS * tile->y_plane + pixel * RT_BLOCK + i % PARTS * LANES;
}

/* Adds the products of `count` channels of one tap. */
INLINE void channels_add(lanes sum[PIXELS][BLOCKS * PARTS], const float *const *x, const float *w, int64_t stride,
                         uint32_t count, int pixels, int blocks) {
    for (uint32_t c = 0; c < count; c++, w += RT_BLOCK) {
        lanes weight[BLOCKS * PARTS];
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) weight[i] = load(w + i / PARTS * stride + i % PARTS * LANES);
        UNROLLED for (int p = 0; p < pixels; p++) {
            UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[p][i] += weight[i] * x[p][c];
        }
    }
}

/* A tile of constant size. */
INLINE void tile_compute(const rt_blocked_tile *tile, int pixels, int blocks) {
    lanes sum[PIXELS][BLOCKS * PARTS];
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[p][i] = start(tile, place(tile, p, i), i / PARTS, i % PARTS);
    }
    for (uint32_t t = 0; t < tile->taps; t++) {
        const float *const *rows = tile->rows + t * RT_BLOCKED_PIXELS;
        const float *w = tile->weights + t * tile->tap_stride;
        int64_t offset = tile->offset;
        for (uint32_t c = 0; c < tile->channels; c += RT_BLOCK, offset += tile->plane, w += RT_BLOCK * RT_BLOCK) {
            const float *x[PIXELS];
            uint32_t count = tile->channels - c < RT_BLOCK ? tile->channels - c : RT_BLOCK;
            UNROLLED for (int p = 0; p < pixels; p++) x[p] = rows[p] == tile->zeros ? rows[p] : rows[p] + offset;
            channels_add(sum, x, w, tile->weights_stride, count, pixels, blocks);
        }
    }
    lanes low = lower_bound(tile->activation, tile->a), high = upper_bound(tile->activation, tile->b);
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) store(place(tile, p, i), clamp(sum[p][i], low, high));
    }
}

#define VARIANT(pixels, blocks)                                                                                        \
    static void product_##pixels##_##blocks(const rt_blocked_tile *tile) { tile_compute(tile, pixels, blocks); }
#if PIXELS == 6
#define VARIANTS(blocks)                                                                                               \
    VARIANT(1, blocks) VARIANT(2, blocks) VARIANT(3, blocks) VARIANT(4, blocks) VARIANT(5, blocks) VARIANT(6, blocks)
#define ROW(b) {product_1_##b, product_2_##b, product_3_##b, product_4_##b, product_5_##b, product_6_##b}
#else
#define VARIANTS(blocks) VARIANT(1, blocks) VARIANT(2, blocks) VARIANT(3, blocks)
#define ROW(b) {product_1_##b, product_2_##b, product_3_##b}
#endif

VARIANTS(1)
#if BLOCKS >= 2
VARIANTS(2)
#endif
#if BLOCKS == 4
VARIANTS(3)
VARIANTS(4)
#endif

static void (*const variants[BLOCKS][PIXELS])(const rt_blocked_tile *tile) = {
    ROW(1),
#if BLOCKS >= 2
    ROW(2),
#endif
#if BLOCKS == 4
    ROW(3), ROW(4),
#endif
};

/* rt_blocked_kernels.product */
static void product(const rt_blocked_tile *tile) {
    variants[tile->blocks - 1][tile->pixels - 1](tile);
    if (tile->activation == RT_ACTIVATION_CLAMP) return;
    for (uint32_t b = 0; b < tile->blocks; b++) {
        activate_stored(tile->y + b * tile->y_plane, tile->pixels * RT_BLOCK, tile->activation, tile->a, tile->b);
    }
}

extern const rt_blocked_kernels NAME(rt_blocked_kernels_);
const rt_blocked_kernels NAME(rt_blocked_kernels_) = {
    .pixels = PIXELS,
    .blocks = BLOCKS,
    .product = product,
    .depthwise = NAME(rt_lanes_depthwise_),
    .pool = NAME(rt_lanes_pool_),
    .sum = NAME(rt_lanes_sum_),
    .winograd_input = {NAME(rt_lanes_winograd2_input_), NAME(rt_lanes_winograd4_input_)},
    .winograd_output = {NAME(rt_lanes_winograd2_output_), NAME(rt_lanes_winograd4_output_)},
};
