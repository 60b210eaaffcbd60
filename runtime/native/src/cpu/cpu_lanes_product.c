/* The tile whose sums stay in registers: every input element is multiplied with whole registers of weights. */
#include "cpu_lanes.h"

/* Pixels x registers of sums, which fill the registers but for those of weights and inputs. */
#if defined(__aarch64__)
#define PIXELS 5
#define REGISTERS 4
#elif LANES == 16
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
/* Those of a first layer's tile of half the blocks. */
enum { FIRST_PIXELS = BLOCKS == 4 ? 2 * PIXELS : PIXELS };

/* CPUs with the widest registers have an L2 of half a MB and more, whose loads are as fast as products need weights that are
 * there; on others half of an L1 of 32 KB is left to inputs. All of x86's ask for those that are needed next: that is free
 * while products wait for multiplications, as they do not where there are FEW pixels. */
enum { WEIGHT_BYTES = LANES == 16 ? RT_BLOCKED_WEIGHT_BYTES : 16 << 10, FEW = 3, IN_L2 = 2, LINE = 16 };

/* Where a register of a tile is stored, from its first element on. */
INLINE int64_t place(int64_t plane, int pixel, int i) {
    return i / PARTS * plane + pixel * RT_BLOCK + i % PARTS * LANES;
}

/* What the sums start at. */
INLINE void sums_start(const rt_blocked_tile *tile, lanes sum[PIXELS][BLOCKS * PARTS], int pixels, int blocks) {
    int64_t plane = tile->y_plane;
    if (tile->bias == NULL) {
        UNROLLED for (int p = 0; p < pixels; p++) {
            UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[p][i] = load(tile->y + place(plane, p, i));
        }
        return;
    }
    UNROLLED for (int i = 0; i < blocks * PARTS; i++) {
        lanes bias = load(tile->bias + i * LANES);
        UNROLLED for (int p = 0; p < pixels; p++) sum[p][i] = bias;
    }
    if (tile->residual == NULL) return;
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[p][i] += load(tile->residual + place(plane, p, i));
    }
}

/* Stores the sums, within the activation's bounds. */
INLINE void sums_store(const rt_blocked_tile *tile, lanes sum[PIXELS][BLOCKS * PARTS], int pixels, int blocks) {
    lanes low = lower_bound(tile->activation, tile->a), high = upper_bound(tile->activation, tile->b);
    float *y = tile->y; /* stores could change the tile, for all that the compiler knows */
    int64_t plane = tile->y_plane;
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) store(y + place(plane, p, i), clamp(sum[p][i], low, high));
    }
}

/* Adds the products of channel c of one tap. */
INLINE void channel_add(lanes sum[PIXELS][BLOCKS * PARTS], const float *const *x, const float *w, int64_t stride,
                        uint32_t c, int pixels, int blocks) {
    lanes weight[BLOCKS * PARTS];
    UNROLLED for (int i = 0; i < blocks * PARTS; i++) {
        weight[i] = load(w + i / PARTS * stride + c * RT_BLOCK + i % PARTS * LANES);
    }
    UNROLLED for (int p = 0; p < pixels; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[p][i] += weight[i] * x[p][c];
    }
}

/* Those of `count` channels, a part of which each of `ways` sums has. */
INLINE void tap_add(lanes (*sum)[PIXELS][BLOCKS * PARTS], const float *const *x, const float *w, int64_t stride,
                    uint32_t count, int pixels, int blocks, uint32_t ways) {
    uint32_t c = 0;
#if defined(__aarch64__)
    for (; c + ways * LANES <= count; c += ways * LANES) {
        UNROLLED for (uint32_t k = 0; k < ways; k++) {
            by_lane_add(&sum[k][0][0], BLOCKS * PARTS, x, c + k * LANES, w + (c + k * LANES) * RT_BLOCK, RT_BLOCK, stride,
                        PARTS, pixels, blocks);
        }
    }
#endif
    for (; ways > 1 && c + ways <= count; c += ways) {
        UNROLLED for (uint32_t k = 0; k < ways; k++) channel_add(sum[k], x, w, stride, c + k, pixels, blocks);
    }
    for (; c < count; c++) channel_add(sum[0], x, w, stride, c, pixels, blocks);
}

/* Asks for the weights of a block of outputs and one of inputs. */
INLINE void block_ask(const float *w) {
    _Pragma("GCC unroll 1") for (int i = 0; i < RT_BLOCK * RT_BLOCK; i += LINE) __builtin_prefetch(w + i, 0, IN_L2);
}

/* Whether all pixels of a tap lie in the padding. */
INLINE bool tap_is_outside(const rt_blocked_tile *tile, const void *const *rows, int pixels) {
    bool outside = true;
    UNROLLED for (int p = 0; p < pixels; p++) outside &= rows[p] == tile->zeros;
    return outside;
}

/* A tile of constant size. */
INLINE void tile_compute(const rt_blocked_tile *tile, int pixels, int blocks) {
    const int ways = pixels == 1 ? WAYS : 1;
    lanes sum[WAYS][PIXELS][BLOCKS * PARTS];
    sums_start(tile, sum[0], pixels, blocks);
    UNROLLED for (int k = 1; k < ways; k++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[k][0][i] = (lanes){0};
    }
    for (uint32_t t = 0; t < tile->taps; t++) {
        const void *const *rows = tile->rows + t * RT_BLOCKED_PIXELS;
        const float *w = tile->weights + t * tile->tap_stride;
        int64_t offset = tile->offset;
        if (tap_is_outside(tile, rows, pixels)) continue;
        for (uint32_t c = 0; c < tile->channels; c += RT_BLOCK, offset += tile->plane, w += RT_BLOCK * RT_BLOCK) {
            const float *x[PIXELS];
            uint32_t count = tile->channels - c < RT_BLOCK ? tile->channels - c : RT_BLOCK;
            if (LANES >= 8 && pixels > FEW && (blocks > 1 || BLOCKS == 1) && tile->ahead != 0) block_ask(w + tile->ahead);
            UNROLLED for (int p = 0; p < pixels; p++) x[p] = rows[p] == tile->zeros ? rows[p] : (const float *)rows[p] + offset;
            tap_add(sum, x, w, tile->weights_stride, count, pixels, blocks, (uint32_t)ways);
        }
    }
    UNROLLED for (int k = 1; k < ways; k++) {
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[0][0][i] += sum[k][0][i];
    }
    sums_store(tile, sum[0], pixels, blocks);
}

/* The same of inputs that lie anywhere, at the same offsets from each pixel; more pixels than PIXELS are equally far apart,
 * since there are no registers for a pointer to each. */
INLINE void first_compute(const rt_blocked_tile *tile, int pixels, int blocks) {
    lanes sum[FIRST_PIXELS][BLOCKS * PARTS];
    const float *x[PIXELS], *w = tile->weights;
    const int64_t step = pixels > 1 ? (const float *)tile->rows[1] - (const float *)tile->rows[0] : 0;
    sums_start(tile, sum, pixels, blocks);
    UNROLLED for (int p = 0; p < PIXELS && p < pixels; p++) x[p] = tile->rows[p];
    for (uint32_t t = 0; t < tile->taps; t++, w += RT_BLOCK) {
        lanes weight[BLOCKS * PARTS];
        UNROLLED for (int i = 0; i < blocks * PARTS; i++) {
            weight[i] = load(w + i / PARTS * tile->weights_stride + i % PARTS * LANES);
        }
        const float *at = x[0] + tile->offsets[t];
        UNROLLED for (int p = 0; p < pixels; p++) {
            float input = pixels > PIXELS ? at[p * step] : x[p][tile->offsets[t]];
            UNROLLED for (int i = 0; i < blocks * PARTS; i++) sum[p][i] += weight[i] * input;
        }
    }
    sums_store(tile, sum, pixels, blocks);
}

#define VARIANT(pixels, blocks)                                                                                        \
    IN_ORDER static void product_##pixels##_##blocks(const rt_blocked_tile *tile) { tile_compute(tile, pixels, blocks); }
#if PIXELS == 5
#define VARIANTS(blocks) VARIANT(1, blocks) VARIANT(2, blocks) VARIANT(3, blocks) VARIANT(4, blocks) VARIANT(5, blocks)
#define ROW(b) {product_1_##b, product_2_##b, product_3_##b, product_4_##b, product_5_##b}
#elif PIXELS == 6
#define VARIANTS(blocks)                                                                                               \
    VARIANT(1, blocks) VARIANT(2, blocks) VARIANT(3, blocks) VARIANT(4, blocks) VARIANT(5, blocks) VARIANT(6, blocks)
#define ROW(b) {product_1_##b, product_2_##b, product_3_##b, product_4_##b, product_5_##b, product_6_##b}
#else
#define VARIANTS(blocks) VARIANT(1, blocks) VARIANT(2, blocks) VARIANT(3, blocks)
#define ROW(b) {product_1_##b, product_2_##b, product_3_##b}
#endif

#define FIRSTS(blocks)                                                                                                 \
    static void first_1_##blocks(const rt_blocked_tile *tile) { first_compute(tile, 1, blocks); }                      \
    static void first_all_##blocks(const rt_blocked_tile *tile) { first_compute(tile, PIXELS, blocks); }
#define WIDER(blocks)                                                                                                  \
    static void first_wider_##blocks(const rt_blocked_tile *tile) { first_compute(tile, FIRST_PIXELS, blocks); }

VARIANTS(1)
FIRSTS(1)
#if BLOCKS >= 2
VARIANTS(2)
FIRSTS(2)
#endif
#if BLOCKS == 4
VARIANTS(3)
VARIANTS(4)
FIRSTS(3)
FIRSTS(4)
WIDER(1)
WIDER(2)
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

static void (*const firsts[BLOCKS][3])(const rt_blocked_tile *tile) = {
#if BLOCKS == 4
    {first_1_1, first_all_1, first_wider_1}, {first_1_2, first_all_2, first_wider_2},
    {first_1_3, first_all_3}, {first_1_4, first_all_4},
#else
    {first_1_1, first_all_1},
#if BLOCKS == 2
    {first_1_2, first_all_2},
#endif
#endif
};

/* Whatever activation is no clamp. */
static void activate(const rt_blocked_tile *tile) {
    if (tile->activation == RT_UNARY_CLAMP) return;
    for (uint32_t b = 0; b < tile->blocks; b++) {
        float *y = tile->y + b * tile->y_plane;
        tile->tiles->apply(tile->activation, tile->a, tile->b, y, tile->pixels * RT_BLOCK);
    }
}

/* rt_blocked_kernels.product */
static void product(const rt_blocked_tile *tile) {
    variants[tile->blocks - 1][tile->pixels - 1](tile);
    activate(tile);
}

/* rt_blocked_kernels.first */
static void first(const rt_blocked_tile *tile) {
    firsts[tile->blocks - 1][tile->pixels == 1 ? 0 : tile->pixels == PIXELS ? 1 : 2](tile);
    activate(tile);
}

/* Pixels whose sums of RT_FEW_CHANNELS outputs are whole registers, once their lanes are summed. */
enum { FEW_PIXELS = LANES == 8 ? 2 : 4, FEW_SUMS = FEW_PIXELS * RT_FEW_CHANNELS };

/* Adds the products of a block of inputs of one tap: lanes are inputs. */
INLINE void few_add(const rt_blocked_tile *tile, lanes sum[FEW_SUMS], const float *const *x, const float *w) {
    UNROLLED for (int part = 0; part < RT_BLOCK; part += LANES) {
        lanes weight[RT_FEW_CHANNELS];
        UNROLLED for (int o = 0; o < RT_FEW_CHANNELS; o++) weight[o] = load(w + o * tile->weights_stride + part);
        UNROLLED for (int p = 0; p < FEW_PIXELS; p++) {
            lanes inputs = load(x[p] + part);
            UNROLLED for (int o = 0; o < RT_FEW_CHANNELS; o++) sum[p * RT_FEW_CHANNELS + o] += inputs * weight[o];
        }
    }
}

/* Completes and stores what was summed; lanes without a channel begin at zero. */
static void few_store(const rt_blocked_tile *tile, const float *totals) {
    lanes low = lower_bound(tile->activation, tile->a), high = upper_bound(tile->activation, tile->b);
    for (uint32_t p = 0; p < tile->pixels; p++) {
        float block[RT_BLOCK] = {0};
        memcpy(block, totals + p * RT_FEW_CHANNELS, RT_FEW_CHANNELS * sizeof *block);
        for (uint32_t part = 0; part < RT_BLOCK; part += LANES) {
            lanes value = load(block + part) + load(tile->bias + part);
            if (tile->residual != NULL) value += load(tile->residual + p * RT_BLOCK + part);
            store(tile->y + p * RT_BLOCK + part, clamp(value, low, high));
        }
    }
}

/* rt_blocked_kernels.few */
static void few(const rt_blocked_tile *tile) {
    lanes sum[FEW_SUMS] = {0};
    float totals[FEW_SUMS];
    for (uint32_t t = 0; t < tile->taps; t++) {
        const float *x[FEW_PIXELS], *w = tile->weights + t * tile->tap_stride;
        UNROLLED for (uint32_t p = 0; p < FEW_PIXELS; p++) {
            x[p] = tile->rows[t * RT_BLOCKED_PIXELS + (p < tile->pixels ? p : tile->pixels - 1)];
        }
        for (uint32_t c = 0; c < tile->channels; c += RT_BLOCK, w += RT_BLOCK) {
            few_add(tile, sum, x, w);
            UNROLLED for (int p = 0; p < FEW_PIXELS; p++) x[p] += x[p] == tile->zeros ? 0 : tile->plane;
        }
    }
    for (int i = 0; i < FEW_SUMS; i += LANES) store(totals + i, lanes_sums(sum + i));
    few_store(tile, totals);
    activate(tile);
}

extern const rt_blocked_kernels NAME(rt_blocked_kernels_);
const rt_blocked_kernels NAME(rt_blocked_kernels_) = {
    .pixels = PIXELS,
    .blocks = BLOCKS,
    .weight_bytes = WEIGHT_BYTES,
    .product = product,
    .first_pixels = FIRST_PIXELS,
    .few_pixels = FEW_PIXELS,
    .few = few,
    .first = first,
    .depthwise = NAME(rt_lanes_depthwise_),
    .pool = NAME(rt_lanes_pool_),
    .sum = NAME(rt_lanes_sum_),
    .squares = NAME(rt_lanes_squares_),
    .affine = NAME(rt_lanes_affine_),
    .winograd_input = {NAME(rt_lanes_winograd2_input_), NAME(rt_lanes_winograd4_input_)},
    .winograd_output = {NAME(rt_lanes_winograd2_output_), NAME(rt_lanes_winograd4_output_)},
#if defined(__SSE2__)
    .integer_winograd_input = NAME(rt_lanes_integer_winograd_input_),
    .integer_winograd_product = NAME(rt_lanes_integer_winograd_product_),
    .integer_winograd_output = NAME(rt_lanes_integer_winograd_output_),
#endif
    .quantized_depthwise = NAME(rt_lanes_quantized_depthwise_),
    .quantized_pool = NAME(rt_lanes_quantized_pool_),
    .quantized_pair = NAME(rt_lanes_quantized_pair_),
    .quantized_normalize = NAME(rt_lanes_quantized_normalize_),
    .quantized_softmax = NAME(rt_lanes_quantized_softmax_),
    .quantize = NAME(rt_lanes_quantize_),
    .quantize_by = NAME(rt_lanes_quantize_by_),
    .extend = NAME(rt_lanes_extend_),
    .quads = rt_lanes_quads,
    .lookup = NAME(rt_lanes_lookup_),
    .dequantize = NAME(rt_lanes_dequantize_),
};
