/* What becomes of the sums of a tile of bytes (rt_quantized_end). Without state. */
#ifndef RT_CPU_QUANTIZED_ENDS_H
#define RT_CPU_QUANTIZED_ENDS_H

#include "cpu_lanes_quads.h"

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

/* What a group of blocks adds to its sums, which wait in `held` until the last inputs were brought together. A value. */
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

#endif
