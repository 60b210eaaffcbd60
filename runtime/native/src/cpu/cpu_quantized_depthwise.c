/* Depthwise convolutions of eight bits where the products that a lane sums are those of neighbouring pixels: AVX2, and
 * AVX-512 with VNNI. The other sets have them in floats (quantized_depthwise in cpu_lanes_window.c). */
#include "cpu_lanes_quads.h"

bool NAME(rt_quantized_depthwise_)(const rt_quantized_rows *rows);

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
