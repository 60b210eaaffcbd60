/* Sums of products of eight bits. The inputs of a tile are brought together (cpu_quantized_inputs.h), all blocks of the tile
 * pass over them (cpu_lanes_quads.h), and what becomes of the sums is told (cpu_quantized_ends.h). */
#include "cpu_quantized_ends.h"
#include "cpu_quantized_inputs.h"

/* Keeps further weights from being loaded before two sums are there, and with them registers. */
#define FENCE_BEHIND(first, second) __asm__ volatile("" : "+w"(first), "+w"(second) : : "memory")

#ifdef __ARM_FEATURE_MATMUL_INT8
/* Adds the products of two quads, or of the last one alone: sum[p] and sum[p + 1] hold the first and the last two lanes of
 * both pixels. A pixel that is missing may be anything. */
INLINE void two_quads_add(ints sum[PIXELS][REGISTERS], const element (*x)[ROW], const int8_t *w, int64_t stride, int pixels,
                          int blocks, bool is_last) {
    uint8x16_t both[PIXELS / 2];
    UNROLLED for (int p = 0; p < pixels; p += 2) both[p / 2] = vld1q_u8(x[p]);
    UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {
        const int8_t *own = w + i / PARTS_OF_SUMS * stride + i % PARTS_OF_SUMS * SHARE * RT_QUAD;
        int32x4_t first = vreinterpretq_s32_s8(vld1q_s8(own));
        int32x4_t second = is_last ? vdupq_n_s32(0) : vreinterpretq_s32_s8(vld1q_s8(own + RT_BLOCK * RT_QUAD));
        int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(first, second));
        int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(first, second));
        UNROLLED for (int p = 0; p < pixels; p += 2) {
            sum[p][i] = (ints)vusmmlaq_s32((int32x4_t)sum[p][i], both[p / 2], low);
            sum[p + 1][i] = (ints)vusmmlaq_s32((int32x4_t)sum[p + 1][i], both[p / 2], high);
            FENCE_BEHIND(sum[p][i], sum[p + 1][i]);
        }
    }
}

/* Adds the products of quads that were brought together. */
INLINE void quads_add(ints sum[PIXELS][REGISTERS], const element (*x)[ROW], const int8_t *w, int64_t stride,
                      uint32_t channels, int pixels, int blocks) {
    uint32_t c = 0;
    for (; c + RT_QUAD < channels; c += 2 * RT_QUAD, w += 2 * RT_BLOCK * RT_QUAD) {
        two_quads_add(sum, (const element(*)[ROW])(*x + 2 * c), w, stride, pixels, blocks, false);
    }
    if (c < channels) two_quads_add(sum, (const element(*)[ROW])(*x + 2 * c), w, stride, pixels, blocks, true);
}
#else
/* Adds the products of a quad of each pixel. */
INLINE void quad_add(ints sum[PIXELS][REGISTERS], const element *const *x, const int8_t *w, int64_t stride, int pixels,
                     int blocks) {
    weight_register weights[REGISTERS];
    UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {
        weights[i] = weights_load(w + i / PARTS_OF_SUMS * stride + i % PARTS_OF_SUMS * SHARE * RT_QUAD);
    }
    UNROLLED for (int p = 0; p < pixels; p++) {
        const ints quad = quad_load(x[p]);
        UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) sum[p][i] = products_add(sum[p][i], quad, weights[i]);
    }
}

#ifdef __ARM_FEATURE_DOTPROD
/* Those of as many quads as a register holds: one load of each pixel's inputs, multiplied by lane. */
INLINE void quads_of_register_add(ints sum[PIXELS][REGISTERS], const element (*x)[ROW], const int8_t *w, int64_t stride,
                                  int pixels, int blocks) {
    int8x16_t inputs[PIXELS];
    UNROLLED for (int p = 0; p < pixels; p++) inputs[p] = vld1q_s8((const int8_t *)x[p]);
#define QUAD_ADD(quad)                                                                                                 \
    UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {                                                        \
        const int8_t *own = w + i / PARTS_OF_SUMS * stride + (quad * RT_BLOCK + i % PARTS_OF_SUMS * SHARE) * RT_QUAD;  \
        int8x16_t weights = vld1q_s8(own);                                                                             \
        UNROLLED for (int p = 0; p < pixels; p++) {                                                                    \
            sum[p][i] = (ints)vdotq_laneq_s32((int32x4_t)sum[p][i], weights, inputs[p], quad);                           \
        }                                                                                                              \
    }                                                                                                                  \
    FENCE_BEHIND(sum[0][0], sum[0][1]);
    QUAD_ADD(0)
    QUAD_ADD(1)
    QUAD_ADD(2)
    QUAD_ADD(3)
#undef QUAD_ADD
}
#endif

/* Adds the products of quads that were brought together. */
INLINE void quads_add(ints sum[PIXELS][REGISTERS], const element (*x)[ROW], const int8_t *w, int64_t stride,
                      uint32_t channels, int pixels, int blocks) {
    uint32_t c = 0;
#ifdef __ARM_FEATURE_DOTPROD
    for (; c + LANES * RT_QUAD <= channels; c += LANES * RT_QUAD, w += LANES * RT_BLOCK * RT_QUAD) {
        quads_of_register_add(sum, (const element(*)[ROW])(*x + c), w, stride, pixels, blocks);
    }
#endif
    for (; c < channels; c += RT_QUAD, w += RT_BLOCK * RT_QUAD) {
        const element *quads[PIXELS];
        UNROLLED for (int p = 0; p < pixels; p++) quads[p] = x[p] + c;
        quad_add(sum, quads, w, stride, pixels, blocks);
    }
}

#ifdef WIDENS
/* The same with widened weights. */
INLINE void words_add(ints sum[PIXELS][REGISTERS], const element (*x)[ROW], const int16_t *w, int64_t stride,
                      uint32_t channels, int pixels, int blocks) {
    for (uint32_t c = 0; c < channels; c += RT_QUAD, w += RT_BLOCK * RT_QUAD) {
        weight_register weights[REGISTERS];
        UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {
            weights[i] = words_load(w + i / PARTS_OF_SUMS * stride + i % PARTS_OF_SUMS * SHARE * RT_QUAD);
        }
        UNROLLED for (int p = 0; p < pixels; p++) {
            const ints quad = quad_load(x[p] + c);
            UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) sum[p][i] = products_add(sum[p][i], quad, weights[i]);
        }
    }
}
#endif
#endif

#if defined(DOT) && !defined(SIGNED) && !defined(__ARM_FEATURE_MATMUL_INT8)
/* Whether inputs can be read where they lie: of several blocks those that no zeros stand for, which are one block. */
static bool lies_ready(const rt_quantized_tile *tile) {
    const void *const *rows = tile->rows;
    for (uint32_t t = 0; t < tile->taps && tile->channels > RT_BLOCK; t++, rows += RT_BLOCKED_PIXELS) {
        for (uint32_t p = 0; p < tile->pixels; p++) {
            if (rows[p] == tile->zeros) return false;
        }
    }
    return true;
}

/* Adds the products of all taps, which are read where they lie. */
INLINE void taps_add(ints sum[PIXELS][REGISTERS], const rt_quantized_tile *tile, const int8_t *w, int pixels, int blocks) {
    const void *const *rows = tile->rows;
    for (uint32_t t = 0; t < tile->taps; t++, rows += RT_BLOCKED_PIXELS) {
        const element *x[PIXELS];
        UNROLLED for (int p = 0; p < pixels; p++) x[p] = rows[p];
        for (uint32_t c = 0; c < tile->channels; c += RT_BLOCK) {
            const uint32_t rest = tile->channels - c, some = rest < RT_BLOCK ? rest : RT_BLOCK;
            for (uint32_t i = 0; i < some; i += RT_QUAD, w += RT_BLOCK * RT_QUAD) {
                const element *quads[PIXELS];
                UNROLLED for (int p = 0; p < pixels; p++) quads[p] = x[p] + i;
                quad_add(sum, quads, w, tile->weights_stride, pixels, blocks);
            }
            UNROLLED for (int p = 0; p < pixels; p++) x[p] += tile->plane;
        }
    }
}
#else
static bool lies_ready(const rt_quantized_tile *tile) {
    (void)tile;
    return false;
}

INLINE void taps_add(ints sum[PIXELS][REGISTERS], const rt_quantized_tile *tile, const int8_t *w, int pixels, int blocks) {
    (void)sum, (void)tile, (void)w, (void)pixels, (void)blocks;
}
#endif

/* --- tiles --- */

/* A group of constant size. */
INLINE void group_compute(const group *own, int pixels, int blocks) {
    ints sum[PIXELS][REGISTERS];
    ints starts[REGISTERS];
    int rows = IN_PAIRS ? (pixels + 1) / 2 * 2 : pixels;
    UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {
        starts[i] = sums_start(own->tile, own->block + (uint32_t)(i / PARTS_OF_SUMS));
    }
    UNROLLED for (int p = 0; p < rows; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) {
            sum[p][i] = own->is_first ? starts[i] : own->held[p * REGISTERS + i];
        }
    }
    if (own->x == NULL) {
        taps_add(sum, own->tile, own->weights, pixels, blocks);
#ifdef WIDENS
    } else if (own->words != NULL) {
        words_add(sum, own->x, own->words, own->tile->weights_stride, own->channels, pixels, blocks);
#endif
    } else {
        quads_add(sum, own->x, own->weights, own->tile->weights_stride, own->channels, pixels, blocks);
    }
    const rt_quantized_end *end = &own->tile->end;
    const uint32_t bytes = end->bytes;
    const bool is_known = !(bytes & (RT_BYTES_FIXED | RT_BYTES_FOUND));
    if (own->is_last && (bytes & RT_BYTES_FIXED) && pixels >= IN_REGISTERS) {
        fixed_finish(own->tile, sum, own->block, pixels, blocks);
        return;
    }
#if LANES == 16
    const bool is_plain = is_known && end->residual == NULL;
    if (own->is_last && is_plain && (bytes & RT_BYTES_OUTPUT)) {
        bytes_finish(own->tile, sum, own->block, pixels, blocks);
        return;
    }
    if (own->is_last && is_plain && own->tile->starts == NULL) {
        floats_finish(own->tile, sum, own->block, pixels, blocks);
        return;
    }
#else
    if (own->is_last && is_known) {
        sums_finish(own->tile, sum, own->block, pixels, blocks);
        return;
    }
#endif
    UNROLLED for (int p = 0; p < rows; p++) {
        UNROLLED for (int i = 0; i < blocks * PARTS_OF_SUMS; i++) own->held[p * REGISTERS + i] = sum[p][i];
    }
    if (!own->is_last) return;
    if (pixels < IN_REGISTERS && (bytes & RT_BYTES_FIXED)) {
        held_finish(own, pixels, rows, blocks);
        return;
    }
#if LANES == 16
    if (is_known) {
        others_finish(own, pixels, blocks);
        return;
    }
#endif
    found_finish(own, pixels, rows, blocks);
}

#define VARIANT(pixels, blocks)                                                                                        \
    static void group_##pixels##_##blocks(const group *own) {                                                          \
        group_compute(own, pixels < PIXELS ? pixels : PIXELS, blocks < GROUP ? blocks : GROUP);                        \
    }
#define VARIANTS(blocks)                                                                                               \
    VARIANT(1, blocks) VARIANT(2, blocks) VARIANT(3, blocks) VARIANT(4, blocks) VARIANT(5, blocks) VARIANT(6, blocks)
#define ENTRY(pixels, blocks) pixels <= PIXELS && blocks <= GROUP ? group_##pixels##_##blocks : NULL
#define ROW_OF(b) {ENTRY(1, b), ENTRY(2, b), ENTRY(3, b), ENTRY(4, b), ENTRY(5, b), ENTRY(6, b)}
VARIANTS(1)
VARIANTS(2)
VARIANTS(3)
VARIANTS(4)
static void (*const variants[4][6])(const group *own) = {ROW_OF(1), ROW_OF(2), ROW_OF(3), ROW_OF(4)};

/* rt_quantized_kernels.product */
static void product(const rt_quantized_tile *tile) {
    element buffer[TILE_PIXELS][ROW];
    ints held[PASS][PIXELS * REGISTERS]; /* for each group as many as it could have */
    cursor at = {0, 0};
    for (int64_t done = 0; at.tap < tile->taps;) {
        group own = {.tile = tile, .is_first = done == 0};
        if (done == 0 && lies_ready(tile)) {
            at.tap = tile->taps;
        } else {
            own.x = (const element(*)[ROW])buffer;
            own.channels = inputs_take(tile, &at, buffer);
        }
        own.is_last = at.tap == tile->taps;
        for (uint32_t block = 0; block < tile->blocks; block += GROUP) {
            uint32_t blocks = tile->blocks - block < GROUP ? tile->blocks - block : GROUP;
            own.block = block;
            const int64_t place = block * tile->weights_stride + done * RT_BLOCK;
            own.weights = tile->weights + place;
            own.words = tile->words != NULL ? tile->words + place : NULL;
            own.held = held[block];
            variants[blocks - 1][tile->pixels - 1](&own);
        }
        done += own.channels;
    }
    if (tile->y_pixel == RT_BLOCK) {
        for (uint32_t b = 0; b < tile->blocks; b++) results_activate(&tile->end, b * tile->y_plane, tile->pixels * RT_BLOCK);
    } else { /* the blocks of a pixel follow each other */
        for (uint32_t p = 0; p < tile->pixels; p++) results_activate(&tile->end, p * tile->y_pixel, tile->blocks * RT_BLOCK);
    }
}

#ifdef WIDENS
/* rt_quantized_kernels.widen */
static void widen(const int8_t *w, int64_t count, int16_t *words) {
    for (int64_t i = 0; i < count; i += 16) store((float *)(void *)(words + i), (lanes)weights_load(w + i));
}
#else
#define widen NULL
#endif

/* rt_quantized_kernels.depthwise; AVX-VNNI has AVX2's. */
#if LANES == RT_BLOCK && defined(__AVXVNNI__)
bool rt_quantized_depthwise_avx2_8(const rt_quantized_rows *rows);
#define depthwise rt_quantized_depthwise_avx2_8
#elif defined(RT_SUMS_PIXELS) /* told by the build: some compilers have all of their own CPU for the generic set */
bool NAME(rt_quantized_depthwise_)(const rt_quantized_rows *rows);
#define depthwise NAME(rt_quantized_depthwise_)
#else
#define depthwise NULL
#endif

extern const rt_quantized_kernels NAME(rt_quantized_kernels_);
const rt_quantized_kernels NAME(rt_quantized_kernels_) = {TILE_PIXELS, PASS, product, widen, depthwise};
