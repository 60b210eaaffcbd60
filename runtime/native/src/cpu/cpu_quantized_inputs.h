/* The inputs of a tile of bytes, brought together as the instruction wants them. Without state. */
#ifndef RT_CPU_QUANTIZED_INPUTS_H
#define RT_CPU_QUANTIZED_INPUTS_H

#include "cpu_lanes_quads.h"

/* How far inputs are brought together. A value. */
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
static inline uint32_t quads_take(const rt_quantized_tile *tile, cursor *at, element buffer[TILE_PIXELS][ROW]) {
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
static inline uint32_t inputs_take(const rt_quantized_tile *tile, cursor *at, element buffer[TILE_PIXELS][ROW]) {
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

#endif
