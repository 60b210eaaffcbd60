/* Winograd's F(4x4, 3x3) of bytes in integers, each lane for itself: inputs and weights of a point in 16 bits, their sums
 * modulo 2^32. The weights' matrix G has the rows (6 0 0), (-1 -1 -1), (-1 1 -1), (1 2 4), (1 -2 4), (0 0 6), so that the
 * transforms give 24, 12, 6 and 6 times the four outputs of a row or column: what sums of products are is known where they
 * are within 25 bits (integer_filters in quantized_lowering.py). */
#include "../../native/src/cpu/cpu_lanes_bytes.h"

#if defined(__SSE2__) /* plans for other CPUs have none */
enum { ALPHA = RT_WINOGRAD_ALPHA, TILE = ALPHA - 2, WIDE = RT_WINOGRAD_WIDE, HALF = WIDE / 2 };
/* Where lanes fill a register of AVX2, for which alone plans are made so, loops unroll. */
#if LANES == 8 && RT_BLOCK == 8
#define FAST UNROLLED
enum { BLOCKS = 2 };
#else
#define FAST _Pragma("GCC unroll 1")
enum { BLOCKS = 1 };
#endif
enum { REGISTERS = BLOCKS * PARTS };

static const uint32_t NINTH = 0x38E38E39; /* 9 * NINTH is 1, modulo 2^32 */

typedef uint16_t shorts __attribute__((vector_size(WIDE * 2)));
typedef uint32_t words __attribute__((vector_size(LANES * 4)));

/* --- inputs --- */

/* The channels of a pixel, eight of them at either place. */
INLINE void wide_load(const uint8_t *first, const uint8_t *second, shorts *v) {
    typedef uint8_t wide __attribute__((vector_size(WIDE)));
    typedef uint64_t halves __attribute__((vector_size(WIDE)));
    uint64_t a, b;
    memcpy(&a, first, sizeof a);
    memcpy(&b, second, sizeof b);
    *v = __builtin_convertvector((wide)(halves){a, b}, shorts);
}

/* B' d of values that lie `step` apart, in place. */
INLINE void input_transform(shorts *d, int step) {
    const shorts d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    const shorts sum = d1 + d2, difference = d1 - d2, outer = d4 - d2, inner = d3 - d1;
    d[0] = ((d0 - d2) << 2) + outer;
    d[step] = d3 + d4 - (sum << 2);
    d[2 * step] = d4 - d3 + (difference << 2);
    d[3 * step] = outer + inner + inner;
    d[4 * step] = outer - inner - inner;
    d[5 * step] = d5 - d3 - (inner << 2);
}

/* Copies a tile, zero points outside of the plane, as [row][column][half a pixel's channels]. */
static void edge_copy(const rt_winograd_bytes *at, int half, int64_t top, int64_t left,
                      uint8_t target[ALPHA * ALPHA * HALF]) {
    for (int i = 0; i < ALPHA; i++) {
        const int64_t row = top + i;
        for (int j = 0; j < ALPHA; j++, target += HALF) {
            const int64_t column = left + j;
            const bool is_inside = row >= 0 && row < at->height && column >= 0 && column < at->width;
            if (is_inside) memcpy(target, at->x[half] + (row * at->width + column) * RT_BLOCK, HALF);
            else memset(target, at->zero, HALF);
        }
    }
}

/* domain = B' d B of a tile */
INLINE void tile_transform(const rt_winograd_bytes *at, int64_t top, int64_t left, int16_t *domain) {
    const bool is_inside = top >= 0 && left >= 0 && top + ALPHA <= at->height && left + ALPHA <= at->width;
    const int64_t row = is_inside ? at->width * RT_BLOCK : ALPHA * HALF, pixel = is_inside ? RT_BLOCK : HALF;
    uint8_t held[2][ALPHA * ALPHA * HALF];
    const uint8_t *x[2];
    for (int half = 0; half < 2; half++) {
        if (!is_inside) edge_copy(at, half, top, left, held[half]);
        x[half] = is_inside ? at->x[half] + (top * at->width + left) * RT_BLOCK : held[half];
    }
    shorts d[ALPHA * ALPHA];
    for (int j = 0; j < ALPHA; j++) {
        FAST for (int i = 0; i < ALPHA; i++) {
            wide_load(x[0] + i * row + j * pixel, x[1] + i * row + j * pixel, &d[i * ALPHA + j]);
        }
        input_transform(d + j, ALPHA);
    }
    for (int i = 0; i < ALPHA; i++) {
        input_transform(d + i * ALPHA, 1);
        FAST for (int j = 0; j < ALPHA; j++) {
            memcpy(domain + (i * ALPHA + j) * at->step, &d[i * ALPHA + j], sizeof(shorts));
        }
    }
}

void NAME(rt_lanes_integer_winograd_input_)(const rt_winograd_bytes *at) {
    int16_t *domain = at->domain;
    for (int64_t i = at->first; i < at->end; i++, domain += WIDE) {
        tile_transform(at, i / at->columns * TILE - at->pad_t, i % at->columns * TILE - at->pad_l, domain);
    }
}

/* --- products --- */

INLINE ints ints_load(const void *source) { return (ints)load(source); }

/* The sum of both products of 16 bits of each lane, more. */
INLINE ints pair_add(ints sum, ints x, ints w) {
#if LANES == 16
    return sum + (ints)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#elif LANES == 8 && defined(__AVX2__)
    return sum + (ints)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#else
    return sum + (ints)_mm_madd_epi16((__m128i)x, (__m128i)w);
#endif
}

/* A tile of constant size; the weights of a pair of channels are [lane][2]. */
INLINE void tile_multiply(const rt_winograd_product *own, int pixels, int blocks) {
    ints sum[RT_BLOCKED_PIXELS][REGISTERS] = {0};
    const int16_t *x = own->inputs, *w = own->weights;
    for (uint32_t some = 0; some < own->wides; some++, x += own->plane) {
        _Pragma("GCC unroll 2") for (int pair = 0; pair < WIDE; pair += 2, w += 2 * RT_BLOCK) {
            ints weights[REGISTERS];
            FAST for (int i = 0; i < blocks * PARTS; i++) {
                weights[i] = ints_load(w + i / PARTS * own->weights_stride + i % PARTS * LANES * 2);
            }
            FAST for (int p = 0; p < pixels; p++) {
                int32_t both;
                memcpy(&both, x + p * WIDE + pair, sizeof both);
                const ints inputs = (ints){0} + both;
                FAST for (int i = 0; i < blocks * PARTS; i++) sum[p][i] = pair_add(sum[p][i], inputs, weights[i]);
            }
        }
    }
    FAST for (int p = 0; p < pixels; p++) {
        FAST for (int i = 0; i < blocks * PARTS; i++) {
            int32_t *target = own->sums + i / PARTS * own->sums_plane + p * RT_BLOCK + i % PARTS * LANES;
            store((float *)(void *)target, (lanes)sum[p][i]);
        }
    }
}

#define VARIANT(pixels, blocks) \
    static void tile_##pixels##_##blocks(const rt_winograd_product *own) { tile_multiply(own, pixels, blocks); }
#if LANES == 8 && RT_BLOCK == 8
VARIANT(1, 1)
VARIANT(2, 1)
VARIANT(3, 1)
VARIANT(4, 1)
VARIANT(5, 1)
VARIANT(6, 1)
VARIANT(1, 2)
VARIANT(2, 2)
VARIANT(3, 2)
VARIANT(4, 2)
VARIANT(5, 2)
VARIANT(6, 2)
#define ROW(b) {tile_1_##b, tile_2_##b, tile_3_##b, tile_4_##b, tile_5_##b, tile_6_##b}
static void (*const variants[BLOCKS][RT_BLOCKED_PIXELS])(const rt_winograd_product *) = {ROW(1), ROW(2)};

static void some_multiply(const rt_winograd_product *own, uint32_t blocks) { variants[blocks - 1][own->pixels - 1](own); }
#else
static void some_multiply(const rt_winograd_product *own, uint32_t blocks) {
    tile_multiply(own, (int)own->pixels, (int)blocks);
}
#endif

void NAME(rt_lanes_integer_winograd_product_)(const rt_winograd_product *tile) {
    rt_winograd_product own = *tile;
    for (uint32_t block = 0; block < tile->blocks; block += BLOCKS) {
        some_multiply(&own, tile->blocks - block < BLOCKS ? 1 : BLOCKS);
        own.weights += BLOCKS * own.weights_stride;
        own.sums += BLOCKS * own.sums_plane;
    }
}

/* --- outputs --- */

/* A' m of values that lie `step` apart, times 24, 12, 6 and 6, into the first TILE of them. */
INLINE void output_transform(words *m, int step) {
    const words sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
    const words sum2 = m[3 * step] + m[4 * step], difference2 = m[3 * step] - m[4 * step];
    m[0] += (sum << 2) + sum2;
    m[step] = difference + difference + difference2;
    m[2 * step] = sum + sum2;
    m[3 * step] = difference + difference2 + difference2 + m[5 * step];
}

/* Completes the sums of `count` neighbours. */
APART void row_complete(const sums_end *by, const ints *sum, int64_t count, int64_t place) {
    if (count == TILE) {
        sums_complete(by, sum, TILE, place);
    } else {
        for (int64_t i = 0; i < count; i++) sums_complete(by, sum + i, 1, place + i * RT_BLOCK);
    }
}

/* A tile's outputs of a register of lanes. */
INLINE void tile_complete(const rt_winograd_sums *at, const sums_end *by, const int32_t *sums, int64_t top, int64_t left,
                          int part) {
    static const int SHIFTS[TILE] = {3, 2, 1, 1}; /* of 24, 12, 6, 6 over 3 */
    const int64_t rest = at->width - left, columns = rest < TILE ? rest : TILE;
    words d[ALPHA * ALPHA];
    for (int j = 0; j < ALPHA; j++) {
        FAST for (int i = 0; i < ALPHA; i++) {
            d[i * ALPHA + j] = (words)ints_load(sums + (i * ALPHA + j) * at->step + part);
        }
        output_transform(d + j, ALPHA);
    }
    FAST for (int i = 0; i < TILE; i++) {
        if (top + i >= at->height) break;
        ints sum[TILE];
        output_transform(d + i * ALPHA, 1);
        FAST for (int j = 0; j < TILE; j++) sum[j] = (ints)(d[i * ALPHA + j] * NINTH) >> (SHIFTS[i] + SHIFTS[j]);
        const int64_t place = ((top + i) * at->width + left) * RT_BLOCK;
        row_complete(by, sum, columns, place + part);
        if (part + LANES == RT_BLOCK) results_activate(&by->end, place, columns * RT_BLOCK);
    }
}

void NAME(rt_lanes_integer_winograd_output_)(const rt_winograd_sums *at) {
    for (int part = 0; part < RT_BLOCK; part += LANES) {
        const sums_end by = sums_end_of(&at->end, part);
        const int32_t *sums = at->sums;
        for (int64_t i = at->first; i < at->end_tile; i++, sums += RT_BLOCK) {
            tile_complete(at, &by, sums, i / at->columns * TILE, i % at->columns * TILE, part);
        }
    }
}
#endif
