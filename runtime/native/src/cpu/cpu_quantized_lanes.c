/* Sums of products of eight bits. The inputs of a tile are brought together as the instruction wants them, and all blocks
 * of the tile pass over them: bytes for an instruction that sums four products in a lane (VNNI, SDOT) or eight for two
 * pixels and lanes (I8MM), else 16 bits for one that sums two (x86) or widens (the rest). None of them saturates; with
 * RT_PAIRS AVX2's sum of two products of bytes would, but for weights that never let it (RT_BYTES_PAIRS).
 *
 * Depthwise convolutions are here where the products in a lane are those of neighbouring pixels (AVX2 and VNNI); the other
 * sets have them in floats (cpu_lanes_window.c). */
#include "cpu_lanes_bytes.h"
#include "cpu_lanes_window.h"

/* PARTIALS: sums that each lane has, which are added up at the end. SIGNED: inputs are multiplied as u - 128. PIXELS x
 * REGISTERS of sums fill the registers but for those of weights and inputs. */
#if defined(__AVX512VNNI__) && LANES == 16
#define DOT 1
#define PIXELS 6
#define REGISTERS 4
#elif defined(__AVXVNNI__)
#define DOT 1
#define PIXELS 6
#define REGISTERS 2
#elif defined(RT_PAIRS)
#define DOT 1
#define PIXELS 6
#define REGISTERS 2
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#define DOT 1
#define PIXELS 6
#define REGISTERS 4
#elif defined(__ARM_FEATURE_DOTPROD)
#define DOT 1
#define SIGNED 1
#define PIXELS 5
#define REGISTERS 4
#elif defined(__SSE2__)
#define PARTIALS 2
#define PIXELS (RT_BLOCK * 2 / LANES <= 2 ? 6 : RT_BLOCK * 2 / LANES <= 4 ? 3 : 1)
#define REGISTERS (RT_BLOCK * 2 / LANES)
#else
#define PARTIALS 4
#define PIXELS (RT_BLOCK == 8 ? 3 : 1)
#define REGISTERS RT_BLOCK
#endif
#ifdef DOT
#define PARTIALS 1
typedef uint8_t element;
#else
typedef int16_t element;
#endif

enum {
    TILE_PIXELS = PIXELS,
    SHARE = LANES / PARTIALS,        /* lanes that a register of sums serves */
    PARTS_OF_SUMS = RT_BLOCK / SHARE, /* registers of sums of a block */
    GROUP = REGISTERS / PARTS_OF_SUMS, /* blocks that are summed at once */
    PASS = 256 / RT_BLOCK,           /* blocks that pass over inputs which were brought together once */
    CROSSED = LANES == 8 && PARTIALS == 2, /* order of lanes of sums (crossed) */
#ifdef __ARM_FEATURE_MATMUL_INT8
    IN_PAIRS = true,                 /* sums are of two pixels */
#else
    IN_PAIRS = false,
#endif
    CHUNK = 512,                     /* channels of taps that are brought together at once */
    ROW = CHUNK + RT_BLOCK
};

/* --- inputs --- */

/* How far inputs are brought together. */
typedef struct {
    uint32_t tap, channel;
} cursor;

/* Where the quad of channel c lies; in pairs of pixels two quads of each follow each other in turn. */
INLINE element *quad_place(element buffer[TILE_PIXELS][ROW], uint32_t pixel, uint32_t c) {
    return IN_PAIRS ? buffer[pixel / 2 * 2] + c / 8 * 16 + pixel % 2 * 8 + c % 8 : buffer[pixel] + c;
}

#ifdef __ARM_FEATURE_MATMUL_INT8
/* One block of one pixel, from channel c of the buffer on. */
INLINE void block_take(const uint8_t *x, element buffer[TILE_PIXELS][ROW], uint32_t pixel, uint32_t c) {
    if (c % 8 == 0) {
        UNROLLED for (uint32_t i = 0; i < RT_BLOCK; i += 8) memcpy(quad_place(buffer, pixel, c + i), x + i, 8);
    } else {
        for (uint32_t i = 0; i < RT_BLOCK; i += RT_QUAD) memcpy(quad_place(buffer, pixel, c + i), x + i, RT_QUAD);
    }
}
#else
/* One block of one pixel, from channel c of the buffer on. */
INLINE void block_take(const uint8_t *x, element buffer[TILE_PIXELS][ROW], uint32_t pixel, uint32_t c) {
    element *target = quad_place(buffer, pixel, c);
    typedef uint8_t block_bytes __attribute__((vector_size(RT_BLOCK)));
    block_bytes value;
    memcpy(&value, x, sizeof value);
#if defined(SIGNED)
    value ^= 0x80;
    memcpy(target, &value, sizeof value);
#elif defined(DOT)
    memcpy(target, &value, sizeof value);
#elif defined(__SSE2__)
    UNROLLED for (int i = 0; i < RT_BLOCK; i += 8) {
        __m128i half = _mm_loadl_epi64((const __m128i *)(const void *)(x + i));
#if LANES == 8
        half = _mm_cvtepu8_epi16(half);
#else
        half = _mm_unpacklo_epi8(half, _mm_setzero_si128());
#endif
        _mm_storeu_si128((__m128i *)(void *)(target + i), half);
    }
#else
    typedef int16_t block_elements __attribute__((vector_size(RT_BLOCK * 2)));
    block_elements wide = __builtin_convertvector(value, block_elements);
    memcpy(target, &wide, sizeof wide);
#endif
}
#endif

#ifdef DOT
/* The same as inputs_take of so few channels that a tap is a quad. */
static uint32_t quads_take(const rt_quantized_tile *tile, cursor *at, element buffer[TILE_PIXELS][ROW]) {
    uint32_t taken = 0;
    for (; at->tap < tile->taps && taken + RT_BLOCK <= CHUNK; at->tap++, taken += RT_QUAD) {
        const void *const *rows = tile->rows + at->tap * RT_BLOCKED_PIXELS;
        for (uint32_t p = 0; p < tile->pixels; p++) {
            uint32_t quad;
            memcpy(&quad, rows[p], sizeof quad);
#ifdef SIGNED
            quad ^= 0x80808080;
#endif
            memcpy(quad_place(buffer, p, taken), &quad, sizeof quad);
        }
    }
    return taken;
}
#endif

/* Takes channels of taps, in whole blocks, until the rows of the buffer are full, or all is taken; returns how many
 * channels they have, each tap rounded up to quads. */
static uint32_t inputs_take(const rt_quantized_tile *tile, cursor *at, element buffer[TILE_PIXELS][ROW]) {
#ifdef DOT
    if (tile->channels <= RT_QUAD) return quads_take(tile, at, buffer);
#endif
    uint32_t taken = 0;
    while (at->tap < tile->taps && taken + RT_BLOCK <= CHUNK) {
        const void *const *rows = tile->rows + at->tap * RT_BLOCKED_PIXELS;
        uint32_t rest = tile->channels - at->channel, room = (CHUNK - taken) / RT_BLOCK * RT_BLOCK;
        uint32_t some = rest < room ? rest : room;
        for (uint32_t p = 0; p < tile->pixels; p++) {
            int64_t plane = rows[p] == tile->zeros ? 0 : tile->plane;
            const uint8_t *x = (const uint8_t *)rows[p] + at->channel / RT_BLOCK * plane;
            for (uint32_t c = 0; c < some; c += RT_BLOCK, x += plane) block_take(x, buffer, p, taken + c);
        }
        taken += (some + RT_QUAD - 1) / RT_QUAD * RT_QUAD;
        at->channel += some;
        if (at->channel == tile->channels) at->tap++, at->channel = 0;
    }
    return taken;
}

/* --- sums --- */

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

/* Pixel by pixel what lies in pairs of pixels. */
INLINE void sums_part(ints sum[PIXELS][REGISTERS], int pixels, int registers) {
    UNROLLED for (int p = 0; p < pixels; p += 2) {
        UNROLLED for (int i = 0; i < registers; i++) {
            int64x2_t first = (int64x2_t)sum[p][i], second = (int64x2_t)sum[p + 1][i];
            sum[p][i] = (ints)vzip1q_s64(first, second);
            sum[p + 1][i] = (ints)vzip2q_s64(first, second);
        }
    }
}
#elif defined(DOT)
typedef ints weight_register;

/* The weights of SHARE lanes. */
INLINE weight_register weights_load(const int8_t *w) {
    weight_register value;
    memcpy(&value, w, sizeof value);
    return value;
}

/* A quad of inputs in every lane. */
INLINE ints quad_load(const element *x) {
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return (ints){0} + quad;
}

INLINE ints products_add(ints sum, ints x, weight_register w) {
#if LANES == 16
    return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#elif defined(RT_PAIRS)
    const __m256i pairs_of_sums = _mm256_maddubs_epi16((__m256i)x, (__m256i)w);
    return sum + (ints)_mm256_madd_epi16(pairs_of_sums, _mm256_set1_epi16(1));
#elif LANES == 8
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
#else
    return (ints)vdotq_s32((int32x4_t)sum, (int8x16_t)x, (int8x16_t)w);
#endif
}
#elif defined(__SSE2__)
typedef int16_t weight_register __attribute__((vector_size(LANES * 4)));

INLINE weight_register weights_load(const int8_t *w) {
#if LANES == 8
    return (weight_register)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)w));
#else
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)w);
    return (weight_register)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
#endif
}

INLINE ints quad_load(const element *x) {
    typedef int64_t quads __attribute__((vector_size(LANES * 4)));
    int64_t quad;
    memcpy(&quad, x, sizeof quad);
    return (ints)((quads){0} + quad);
}

#if LANES == 8
#define WIDENS 1

/* Widened ones. */
INLINE weight_register words_load(const int16_t *w) { return (weight_register)load((const float *)(const void *)w); }

/* rt_quantized_kernels.widen */
static void widen(const int8_t *w, int64_t count, int16_t *words) {
    for (int64_t i = 0; i < count; i += 16) store((float *)(void *)(words + i), (lanes)weights_load(w + i));
}
#endif

INLINE ints products_add(ints sum, ints x, weight_register w) {
#if LANES == 8
    return sum + (ints)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#else
    return sum + (ints)_mm_madd_epi16((__m128i)x, (__m128i)w);
#endif
}
#else
typedef ints weight_register;
typedef int16_t half_ints __attribute__((vector_size(LANES * 2)));

INLINE weight_register weights_load(const int8_t *w) {
    typedef int8_t quarter_ints __attribute__((vector_size(LANES)));
    quarter_ints value;
    memcpy(&value, w, sizeof value);
    return __builtin_convertvector(__builtin_convertvector(value, half_ints), ints);
}

INLINE ints quad_load(const element *x) {
    half_ints value;
    memcpy(&value, x, sizeof value);
    return __builtin_convertvector(value, ints);
}

INLINE ints products_add(ints sum, ints x, weight_register w) { return sum + x * w; }
#endif

#ifndef __ARM_FEATURE_MATMUL_INT8
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

#ifndef __ARM_FEATURE_MATMUL_INT8
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

/* Nothing: they lie so. */
INLINE void sums_part(ints sum[PIXELS][REGISTERS], int pixels, int registers) { (void)sum, (void)pixels, (void)registers; }
#endif

/* --- results --- */

/* The sums of LANES lanes, from their parts on. */
INLINE ints totals(const ints *sum) {
#if PARTIALS == 1
    return *sum;
#elif PARTIALS == 2 && LANES == 8
    return (ints)_mm256_hadd_epi32((__m256i)sum[0], (__m256i)sum[1]); /* CROSSED */
#elif PARTIALS == 2
    __m128 first = (__m128)sum[0], second = (__m128)sum[1];
    return (ints)_mm_shuffle_ps(first, second, 0x88) + (ints)_mm_shuffle_ps(first, second, 0xDD);
#else
    ints made;
    UNROLLED for (int i = 0; i < LANES; i++) made[i] = sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
    return made;
#endif
}

#if LANES < 16
/* Completes the sums of a group of blocks, the first of which is `block`. */
INLINE void sums_finish(const rt_quantized_tile *tile, ints sum[PIXELS][REGISTERS], uint32_t block, int pixels,
                        int blocks) {
    const rt_quantized_end end = tile->end; /* stores could change the tile, for all that the compiler knows */
    const float *bias = end.bias;
    lanes low = least(&end), high = most(&end);
#ifdef SIGNED
    bias += tile->signed_bias;
#endif
    sums_part(sum, pixels, blocks * PARTS_OF_SUMS);
    UNROLLED for (int b = 0; b < blocks; b++) {
        int64_t channel = (block + (uint32_t)b) * RT_BLOCK, plane = (block + (uint32_t)b) * tile->y_plane;
        UNROLLED for (int part = 0; part < PARTS; part++) {
            lanes scale = crossed(load(end.scales + channel + part * LANES), CROSSED);
            lanes start = crossed(load(bias + channel + part * LANES), CROSSED), v[PIXELS];
            UNROLLED for (int p = 0; p < pixels; p++) {
                ints whole = totals(sum[p] + b * PARTS_OF_SUMS + part * PARTIALS);
                if (tile->starts != NULL) whole += tile->starts[p];
                v[p] = __builtin_convertvector(whole, lanes) * scale + start;
            }
            results_store(&end, v, pixels, plane + part * LANES, tile->y_pixel, low, high, CROSSED);
        }
    }
}
#endif

/* --- tiles --- */

/* What a group of blocks adds to its sums, which wait in `held` until the last inputs were brought together. */
typedef struct {
    const rt_quantized_tile *tile;
    const element (*x)[ROW]; /* NULL: taps as they lie */
    uint32_t channels, block;
    const int8_t *weights;
    const int16_t *words; /* the same widened; NULL: not */
    ints *held;
    bool is_first, is_last;
} group;

/* Tiles of so many pixels complete their sums by fixed point in registers: it is much code, which the others share. */
#if LANES == 16
enum { IN_REGISTERS = 1 };
#elif defined(FINE_FLOATS) && LANES == RT_BLOCK && !defined(RT_PAIRS)
enum { IN_REGISTERS = PIXELS };
#else
enum { IN_REGISTERS = PIXELS + 1 };
#endif
enum { BEGIN_WITH_BIAS = LANES == 16 };

/* What sums of a block begin with. */
INLINE ints sums_start(const rt_quantized_tile *tile, uint32_t block) {
    const bool is_bias = BEGIN_WITH_BIAS && tile->end.bytes & RT_BYTES_FIXED;
    return is_bias ? (ints)load(tile->end.bias + block * RT_BLOCK) : (ints){0};
}

/* sums_finish by fixed point. */
INLINE void fixed_finish(const rt_quantized_tile *tile, ints sum[PIXELS][REGISTERS], uint32_t block, int pixels, int blocks) {
    const rt_quantized_end end = tile->end; /* stores could change the tile, for all that the compiler knows */
    const int64_t y_plane = tile->y_plane, y_pixel = tile->y_pixel;
    UNROLLED for (int b = 0; b < blocks; b++) {
        const int64_t channel = (block + (uint32_t)b) * RT_BLOCK, plane = (block + (uint32_t)b) * y_plane;
        fixed_lanes by = fixed_lanes_of(&end, end.bias, channel, CROSSED);
        ints own[PIXELS];
        if (BEGIN_WITH_BIAS) by.start = (ints){0};
        UNROLLED for (int p = 0; p < pixels; p++) own[p] = totals(sum[p] + b * PARTS_OF_SUMS);
        some_store(&by, own, 1, pixels, (uint8_t *)end.y + plane, y_pixel);
    }
}

#if LANES == 16
/* sums_finish to bytes, with nothing to be added. */
INLINE void bytes_finish(const rt_quantized_tile *tile, ints sum[PIXELS][REGISTERS], uint32_t block, int pixels, int blocks) {
    const float *scales = tile->end.scales + block * RT_BLOCK, *bias = tile->end.bias + block * RT_BLOCK;
    const int64_t y_plane = tile->y_plane, y_pixel = tile->y_pixel;
    uint8_t *y = (uint8_t *)tile->end.y + block * y_plane;
    const lanes high = (lanes){0} + tile->end.b;
    const int32_t least_byte = (int32_t)tile->end.a, most_byte = (int32_t)tile->end.b;
    const bool is_bounded = tile->end.bytes & RT_BYTES_BOUNDED;
    UNROLLED for (int b = 0; b < blocks; b++, y += y_plane) {
        const lanes scale = load(scales + b * RT_BLOCK), start = load(bias + b * RT_BLOCK);
        lanes v[PIXELS];
        ints whole[PIXELS];
        UNROLLED for (int p = 0; p < pixels; p++) whole[p] = sum[p][b];
        if (tile->starts != NULL) {
            UNROLLED for (int p = 0; p < pixels; p++) whole[p] += tile->starts[p];
        }
        UNROLLED for (int p = 0; p < pixels; p++) v[p] = __builtin_convertvector(whole[p], lanes) * scale + start;
        if (!is_bounded) {
            UNROLLED for (int p = 0; p < pixels; p++) v[p] = lanes_min(high, v[p]);
        }
        UNROLLED for (int p = 0; p < pixels; p++) whole[p] = rounded(v[p]);
        registers_pack(y, y_pixel, whole, pixels, least_byte, most_byte, false, false);
    }
}

/* sums_finish to floats, with nothing to be added. */
INLINE void floats_finish(const rt_quantized_tile *tile, ints sum[PIXELS][REGISTERS], uint32_t block, int pixels, int blocks) {
    const rt_quantized_end end = tile->end; /* stores could change the tile, for all that the compiler knows */
    const int64_t y_plane = tile->y_plane, y_pixel = tile->y_pixel;
    const lanes low = least(&end), high = most(&end);
    UNROLLED for (int b = 0; b < blocks; b++) {
        const int64_t at = block + (uint32_t)b;
        const lanes scale = load(end.scales + at * RT_BLOCK), start = load(end.bias + at * RT_BLOCK);
        float *y = (float *)end.y + at * y_plane;
        UNROLLED for (int p = 0; p < pixels; p++) {
            store(y + p * y_pixel, clamp(__builtin_convertvector(sum[p][b], lanes) * scale + start, low, high));
        }
    }
}

/* Completes the sums of a group that are held, whatever becomes of them: code that all sizes of groups share. */
APART void others_finish(const group *own, int pixels, int blocks) {
    const rt_quantized_tile *tile = own->tile;
    const rt_quantized_end end = tile->end; /* stores could change the tile, for all that the compiler knows */
    const lanes low = least(&end), high = most(&end);
    for (int b = 0; b < blocks; b++) {
        const int64_t block = own->block + (uint32_t)b;
        const lanes scale = load(end.scales + block * RT_BLOCK), start = load(end.bias + block * RT_BLOCK);
        for (int p = 0; p < pixels; p++) {
            const int32_t more = tile->starts != NULL ? tile->starts[p] : 0;
            lanes v = __builtin_convertvector(own->held[p * REGISTERS + b] + more, lanes) * scale + start;
            results_store(&end, &v, 1, block * tile->y_plane + p * tile->y_pixel, RT_BLOCK, low, high, false);
        }
    }
}
#endif

/* Completes the sums of a group that are held, by fixed point. */
APART void held_finish(const group *own, int pixels, int rows, int blocks) {
    const rt_quantized_tile *tile = own->tile;
    const float *bias = tile->end.bias;
    ints(*sum)[REGISTERS] = (ints(*)[REGISTERS])(void *)own->held;
#ifdef SIGNED
    bias += tile->signed_bias;
#endif
    sums_part(sum, rows, REGISTERS);
    for (int b = 0; b < blocks; b++) {
        int64_t channel = (own->block + (uint32_t)b) * RT_BLOCK, plane = (own->block + (uint32_t)b) * tile->y_plane;
        for (int part = 0; part < PARTS; part++) {
            const fixed_lanes by = fixed_lanes_of(&tile->end, bias, channel + part * LANES, CROSSED);
            ints *first = sum[0] + b * PARTS_OF_SUMS + part * PARTIALS;
            for (int p = 0; p < pixels && PARTIALS > 1; p++) first[p * REGISTERS] = totals(first + p * REGISTERS);
            fixed_sums_store(&by, first, REGISTERS, pixels, (uint8_t *)tile->end.y + plane + part * LANES, tile->y_pixel);
        }
    }
}

/* Completes the sums of a group that are held, of found steps: sizes of groups share it, as few models are so. */
APART void found_finish(const group *own, int pixels, int rows, int blocks) {
    const rt_quantized_tile *tile = own->tile;
    const rt_quantized_end end = tile->end;
    const lanes low = least(&end), high = most(&end);
    ints(*sum)[REGISTERS] = (ints(*)[REGISTERS])(void *)own->held;
    int32_t zero = end.zero;
#ifdef SIGNED
    zero -= 128;
#endif
    sums_part(sum, rows, REGISTERS);
    for (int i = 0; i < blocks * PARTS; i++) {
        const int64_t block = own->block + (uint32_t)(i / PARTS), lane = i % PARTS * LANES, channel = block * RT_BLOCK + lane;
        const float *bias = end.bias + channel;
        const lanes scale = crossed(load(end.scales + channel) * end.step, CROSSED), start = crossed(load(bias), CROSSED);
        const ints less = (ints)crossed(load(bias + end.shifts), CROSSED) * zero;
        ints offset = {0};
        if (tile->starts != NULL) offset = (ints)crossed(load(bias + 2 * end.shifts), CROSSED);
        for (int p = 0; p < pixels; p++) {
            ints whole = totals(sum[p] + i * PARTIALS) - less;
            if (tile->starts != NULL) whole += offset * tile->starts[p];
            lanes v = __builtin_convertvector(whole, lanes) * scale + start;
            results_store(&end, &v, 1, block * tile->y_plane + lane + p * tile->y_pixel, 0, low, high, CROSSED);
        }
    }
}

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

/* --- depthwise, by sums of several products --- */

/* rt_quantized_kernels.depthwise; AVX-VNNI has AVX2's. */
bool NAME(rt_quantized_depthwise_)(const rt_quantized_rows *rows);

#if LANES == RT_BLOCK && defined(__AVX2__) && !defined(RT_PAIRS) && !defined(__AVXVNNI__)
#define depthwise NAME(rt_quantized_depthwise_)

/* A unit: neighbouring pixels of a row, as many as a lane sums products of, the elements of each channel together. The rows
 * under the window are brought to memory as units, with their padding, of which the first unit begins with. Of the outputs
 * that are computed at once each begins at another place of its first unit, and has weights that are moved there. */
enum { UNIT_BYTES = sizeof(ints), UNIT = UNIT_BYTES / RT_BLOCK / sizeof(element), ELEMENT_BITS = 8 * sizeof(element) };
enum { WINDOW_PIXELS = 4, MOST_ROWS = 5, MOST_STRIDE = 2, MOST_WEIGHTS = (MOST_ROWS + UNIT - 2) / UNIT + 1 };
enum { MOST_UNITS = ((WINDOW_PIXELS - 1) * MOST_STRIDE + MOST_ROWS - 1) / UNIT + 1 };

/* Some rows, the weights of each row of taps by the place in the first unit, and what sums begin with. */
typedef struct {
    const rt_quantized_rows *rows;
    ints zeros, weights[MOST_ROWS][UNIT][MOST_WEIGHTS];
    ints start;
    uint8_t *outside, *ring; /* a row of zero points; row r of the input is number r % slots of the ring */
    uint32_t slots;         /* rows, `line` bytes from one to the next */
    int64_t line, next;     /* the first row that is not there yet */
} unit_rows;

/* Units under the outputs that are computed at once. */
INLINE int64_t window_units(int64_t k_w, int64_t stride) { return ((WINDOW_PIXELS - 1) * stride + k_w - 1) / UNIT + 1; }

/* Completes the sums of outputs. */
#if LANES == 16
INLINE void window_complete(const sums_end *by, const ints *sum, int64_t place) {
    sums_complete(by, sum, WINDOW_PIXELS, place);
}
#else
APART void window_complete(const sums_end *by, const ints *sum, int64_t place) {
    sums_complete(by, sum, WINDOW_PIXELS, place);
}
#endif

/* Completes the sums of outputs of which only `rest` are there; changes what completes them. */
APART void rest_complete(sums_end *by, const ints *sum, int64_t place, int64_t rest) {
    const rt_quantized_end end = by->end;
    const int64_t y_size = end.bytes & RT_BYTES_OUTPUT ? 1 : sizeof(float), count = rest * RT_BLOCK;
    const int64_t residual_size = end.bytes & RT_BYTES_RESIDUAL ? 1 : sizeof(float);
    float made[WINDOW_PIXELS * RT_BLOCK], residual[WINDOW_PIXELS * RT_BLOCK] = {0};
    by->end.y = made;
    if (end.residual != NULL) {
        memcpy(residual, (const char *)end.residual + place * residual_size, (size_t)(count * residual_size));
        by->end.residual = residual;
    }
    window_complete(by, sum, 0);
    memcpy((char *)end.y + place * y_size, made, (size_t)(count * y_size));
}

#if LANES == 16
/* The bytes of pixels from `first` to `end` - 1, of a unit. */
INLINE __mmask64 pixels_mask(int64_t first, int64_t end) {
    const int64_t begin = first > 0 ? first : 0, after = end < UNIT ? end : UNIT;
    if (after <= begin) return 0;
    return ~(__mmask64)0 >> (UNIT - (after - begin)) * RT_BLOCK << begin * RT_BLOCK;
}

/* A unit of bytes, from pixel `first` to `end` - 1, with `zeros` for the others. */
INLINE ints unit_load(const uint8_t *x, int64_t first, int64_t end, ints zeros, bool are_signed) {
    (void)are_signed;
    const bool is_whole = first <= 0 && end >= UNIT;
    const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i turned = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i there = _mm512_mask_loadu_epi8((__m512i)zeros, is_whole ? ~(__mmask64)0 : pixels_mask(first, end), x);
    return (ints)_mm512_shuffle_epi8(_mm512_permutexvar_epi32(quarters, there), turned);
}

INLINE ints zeros_of(uint8_t zero) { return (ints)_mm512_set1_epi8((char)zero); }

INLINE ints bits_up(ints v, int bits) { return (ints)_mm512_sll_epi32((__m512i)v, _mm_cvtsi32_si128(bits)); }
INLINE ints bits_down(ints v, int bits) { return (ints)_mm512_srl_epi32((__m512i)v, _mm_cvtsi32_si128(bits)); }
#else
/* A unit of bytes that lie behind each other. */
INLINE ints unit_turn(const uint8_t *x, bool are_signed) {
    const __m128i order = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    const __m128i first = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)x), order);
    return (ints)(are_signed ? _mm256_cvtepi8_epi16(first) : _mm256_cvtepu8_epi16(first));
}

INLINE ints zeros_of(uint8_t zero) { return (ints)_mm256_set1_epi16(zero); }

/* A unit of bytes, from pixel `first` to `end` - 1, with `zeros` for the others. */
INLINE ints unit_load(const uint8_t *x, int64_t first, int64_t end, ints zeros, bool are_signed) {
    if (first <= 0 && end >= UNIT) return unit_turn(x, are_signed);
    const int64_t begin = first > 0 ? first : 0, after = end < UNIT ? end : UNIT;
    uint8_t held[UNIT * RT_BLOCK];
    memset(held, zeros[0] & 0xFF, sizeof held);
    if (after > begin) memcpy(held + begin * RT_BLOCK, x + begin * RT_BLOCK, (size_t)((after - begin) * RT_BLOCK));
    return unit_turn(held, are_signed);
}

INLINE ints bits_up(ints v, int bits) { return (ints)_mm256_sll_epi32((__m256i)v, _mm_cvtsi32_si128(bits)); }
INLINE ints bits_down(ints v, int bits) { return (ints)_mm256_srl_epi32((__m256i)v, _mm_cvtsi32_si128(bits)); }
#endif

/* Brings the rows before `end` that are not there yet. */
static void units_move(unit_rows *own, int64_t end) {
    const rt_blocked_window *w = own->rows->window;
    for (; own->next < end && own->next < w->in_h; own->next++) {
        const uint8_t *x = own->rows->x + own->next * w->in_w * RT_BLOCK;
        uint8_t *target = own->ring + (uint32_t)own->next % own->slots * own->line;
        int64_t left = -w->pad_l;
        for (int64_t at = 0; at < own->line; at += UNIT_BYTES, left += UNIT) {
            *(ints *)(void *)(target + at) = unit_load(x + left * RT_BLOCK, -left, w->in_w - left, own->zeros, false);
        }
    }
}

/* Brings the rows under an output row to where `under` tells. */
APART void units_under(unit_rows *own, int64_t row, const uint8_t *under[]) {
    const rt_blocked_window *w = own->rows->window;
    const int64_t top = row * w->stride_h - w->pad_t;
    if (own->next < top) own->next = top;
    units_move(own, top + (w->k_h - 1) * w->dil_h + 1);
    for (int64_t i = 0; i < w->k_h; i++) {
        const int64_t at = top + i * w->dil_h;
        under[i] = at < 0 || at >= w->in_h ? own->outside : own->ring + (uint32_t)at % own->slots * own->line;
    }
}

/* All rows; `k`: taps of either axis, a constant, and so is the stride. */
INLINE void unit_rows_compute(unit_rows *own, int64_t k, int64_t stride) {
    const int64_t width = own->rows->window->out_w, units = window_units(k, stride), end_row = own->rows->end_row;
    sums_end by = sums_end_of(&own->rows->end, 0); /* stores could change the rows, for all that the compiler knows */
    by.fixed.start = (ints){0}; /* weights_move */
    ints weights[MOST_ROWS][UNIT][MOST_WEIGHTS]; /* in registers, if there are enough */
    UNROLLED for (int64_t i = 0; i < k; i++) {
        UNROLLED for (int at = 0; at < UNIT; at++) {
            UNROLLED for (int q = 0; q < MOST_WEIGHTS; q++) weights[i][at][q] = own->weights[i][at][q];
        }
    }
    for (int64_t row = own->rows->first_row; row < end_row; row++) {
        const uint8_t *under[MOST_ROWS];
        units_under(own, row, under);
        for (int64_t column = 0; column < width; column += WINDOW_PIXELS) {
            const int64_t place = (row * width + column) * RT_BLOCK;
            ints sum[WINDOW_PIXELS];
            UNROLLED for (int p = 0; p < WINDOW_PIXELS; p++) sum[p] = own->start;
            UNROLLED for (int64_t i = 0; i < k; i++) {
                const uint8_t *x = under[i] + column * stride / UNIT * UNIT_BYTES;
                ints unit[MOST_UNITS] = {own->zeros};
                UNROLLED for (int64_t q = 0; q < units; q++) unit[q] = *(const ints *)(const void *)(x + q * UNIT_BYTES);
                UNROLLED for (int p = 0; p < WINDOW_PIXELS; p++) {
                    const int64_t at = p * stride % UNIT, first = p * stride / UNIT;
                    UNROLLED for (int64_t q = 0; q * UNIT < at + k; q++) {
                        sum[p] = products_add(sum[p], unit[first + q], (weight_register)weights[i][at][q]);
                    }
                }
            }
            const bool is_overwritten = row * width + column + WINDOW_PIXELS <= end_row * width && by.end.residual == NULL;
            if (column + WINDOW_PIXELS <= width || is_overwritten) { /* what is too much, by the next rows */
                window_complete(&by, sum, place);
                continue;
            }
            sums_end own_by = by; /* what has its address given away stays in memory */
            ints held[WINDOW_PIXELS];
            UNROLLED for (int p = 0; p < WINDOW_PIXELS; p++) held[p] = sum[p];
            rest_complete(&own_by, held, place, width - column);
        }
    }
}

/* Brings the weights to each place: those of a channel are the elements of its lanes, which move on from unit to unit. */
static void weights_move(unit_rows *own) {
    const rt_blocked_window *w = own->rows->window;
    const ints none = {0};
    ints zeros = none;
    for (int64_t i = 0; i < w->k_h; i++) {
        const uint8_t *line = (const uint8_t *)own->rows->bytes + i * w->k_w * RT_BLOCK;
        ints before = none;
        for (int64_t q = 0; q * UNIT < w->k_w + UNIT - 1; q++) {
            const int64_t rest = w->k_w - q * UNIT;
            const ints unit = rest > 0 ? unit_load(line + q * UNIT * RT_BLOCK, 0, rest, none, true) : none;
            for (int place = 0; place < UNIT; place++) {
                own->weights[i][place][q] = bits_up(unit, place * ELEMENT_BITS) | bits_down(before, 32 - place * ELEMENT_BITS);
            }
            zeros = products_add(zeros, own->zeros, (weight_register)unit);
            before = unit;
        }
    }
    own->start = -zeros;
    if (own->rows->end.bytes & RT_BYTES_FIXED) own->start += (ints)load(own->rows->end.bias);
}

bool NAME(rt_quantized_depthwise_)(const rt_quantized_rows *rows) {
    const rt_blocked_window *w = rows->window;
    const rt_padded_rows size = rt_padded_rows_of(w);
    const int64_t units = (w->out_w - 1) / WINDOW_PIXELS * WINDOW_PIXELS * w->stride_w / UNIT + window_units(w->k_w, w->stride_w);
    const bool is_known = w->k_h == w->k_w && (w->k_w == 3 || w->k_w == 5) && w->dil_w == 1 && w->stride_w <= MOST_STRIDE;
    if (!is_known || units > (int64_t)size.width) return false; /* for each pixel of a row there is memory for a unit */
    unit_rows own; /* not all of the weights */
    own.rows = rows;
    own.zeros = zeros_of(rows->zero);
    own.slots = (uint32_t)size.rows;
    own.next = 0;
    weights_move(&own);
    own.line = units * UNIT_BYTES;
    own.outside = (uint8_t *)rows->padded + size.pointer_bytes;
    own.ring = own.outside + own.line;
    for (int64_t i = 0; i < units; i++) ((ints *)(void *)own.outside)[i] = own.zeros;
    if (w->k_w == 3 && w->stride_w == 1) unit_rows_compute(&own, 3, 1);
    else if (w->k_w == 3) unit_rows_compute(&own, 3, 2);
    else if (w->stride_w == 1) unit_rows_compute(&own, 5, 1);
    else unit_rows_compute(&own, 5, 2);
    const int64_t line = w->out_w * RT_BLOCK;
    results_activate(&rows->end, rows->first_row * line, (rows->end_row - rows->first_row) * line);
    return true;
}
#elif defined(__AVXVNNI__) && RT_BLOCK == 8
bool rt_quantized_depthwise_avx2_8(const rt_quantized_rows *rows);
#define depthwise rt_quantized_depthwise_avx2_8
#else
#define depthwise NULL
#endif

/* --- tables --- */

/* What a table of 256 bytes has of some bytes at once: AT_ONCE of them, or one by one. */
#if LANES == 16
enum { AT_ONCE = 64 };

/* The pairs of bytes of a table that hold those of each even byte, less the last bit; the next bit but six chooses a half. */
INLINE __m512i pairs_look_up(__m512i words, const __m512i table[4]) {
    const __m512i first = _mm512_permutex2var_epi16(table[0], words, table[1]);
    const __m512i second = _mm512_permutex2var_epi16(table[2], words, table[3]);
    return _mm512_mask_blend_epi16(_mm512_test_epi16_mask(words, _mm512_set1_epi16(64)), first, second);
}

INLINE void bytes_look_up(const uint8_t *x, const uint8_t *table, uint8_t *y) {
    const __m512i bytes = _mm512_loadu_si512(x), eight = _mm512_set1_epi16(8);
    __m512i held[4];
    UNROLLED for (int i = 0; i < 4; i++) held[i] = _mm512_loadu_si512(table + 64 * i);
    const __m512i even = pairs_look_up(_mm512_srli_epi16(bytes, 1), held), odd = pairs_look_up(_mm512_srli_epi16(bytes, 9), held);
    /* of a pair the byte that the last bit says, in the lower half, and in the upper one */
    const __m512i down = _mm512_and_si512(_mm512_slli_epi16(bytes, 3), eight);
    const __m512i up = _mm512_andnot_si512(_mm512_srli_epi16(bytes, 5), eight);
    const __m512i low = _mm512_srlv_epi16(even, down), high = _mm512_sllv_epi16(odd, up);
    _mm512_storeu_si512(y, _mm512_mask_mov_epi8(low, 0xAAAAAAAAAAAAAAAA, high));
}
#elif defined(__AVX2__)
enum { AT_ONCE = 32 };

/* The lower half of a byte chooses from 16 rows of the table, the upper one among these. */
INLINE void bytes_look_up(const uint8_t *x, const uint8_t *table, uint8_t *y) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)x);
    const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi8(15));
    __m256i held[8];
    UNROLLED for (int i = 0; i < 8; i++) {
        const __m128i *rows = (const __m128i *)(const void *)table + 2 * i;
        __m256i even = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(rows)), low);
        __m256i odd = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(rows + 1)), low);
        held[i] = _mm256_blendv_epi8(even, odd, _mm256_slli_epi16(bytes, 3));
    }
    UNROLLED for (int i = 0; i < 4; i++) held[i] = _mm256_blendv_epi8(held[2 * i], held[2 * i + 1], _mm256_slli_epi16(bytes, 2));
    UNROLLED for (int i = 0; i < 2; i++) held[i] = _mm256_blendv_epi8(held[2 * i], held[2 * i + 1], _mm256_slli_epi16(bytes, 1));
    _mm256_storeu_si256((__m256i *)(void *)y, _mm256_blendv_epi8(held[0], held[1], bytes));
}
#elif defined(__aarch64__)
enum { AT_ONCE = 16 };

INLINE void bytes_look_up(const uint8_t *x, const uint8_t *table, uint8_t *y) {
    const uint8x16_t bytes = vld1q_u8(x);
    uint8x16_t found = vqtbl4q_u8(vld1q_u8_x4(table), bytes);
    UNROLLED for (int i = 1; i < 4; i++) {
        found = vqtbx4q_u8(found, vld1q_u8_x4(table + 64 * i), vsubq_u8(bytes, vdupq_n_u8((uint8_t)(64 * i))));
    }
    vst1q_u8(y, found);
}
#else
enum { AT_ONCE = 1 };

INLINE void bytes_look_up(const uint8_t *x, const uint8_t *table, uint8_t *y) { *y = table[*x]; }
#endif

/* rt_quantized_kernels.lookup */
static void lookup(const uint8_t *x, const uint8_t *table, int64_t count, uint8_t *y) {
    int64_t i = 0;
    for (; i + AT_ONCE <= count; i += AT_ONCE) bytes_look_up(x + i, table, y + i);
    for (; i < count; i++) y[i] = table[x[i]];
}

extern const rt_quantized_kernels NAME(rt_quantized_kernels_);
#ifndef WIDENS
#define widen NULL
#endif
const rt_quantized_kernels NAME(rt_quantized_kernels_) = {TILE_PIXELS, PASS, product, widen, depthwise, lookup};
