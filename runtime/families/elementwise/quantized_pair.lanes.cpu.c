/* Sums and products of two blocked tensors of eight bits, and floats as bytes and back: each lane for itself. */
#include <math.h>

#include "../../native/src/cpu/cpu_lanes_bytes.h"

INLINE void blocks_compute(const rt_quantized_pair *pair, bool multiplies) {
    const rt_quantized_pair own = *pair; /* stores could change it, for all that the compiler knows */
    const lanes low = (lanes){0} + own.low, high = (lanes){0} + own.high;
    for (int64_t i = 0; i < own.blocks; i++) {
        UNROLLED for (int part = 0; part < RT_BLOCK; part += LANES) {
            lanes a = (bytes_load(own.a + i * RT_BLOCK + part) - own.a_zero) * own.a_scale;
            lanes b = (bytes_load(own.b + i * own.b_step + part) - own.b_zero) * own.b_scale;
            lanes v = clamp(multiplies ? a * b : a + b, low, high);
            bytes_store(own.y + i * RT_BLOCK + part, v, (int32_t)own.low);
        }
    }
}

/* Bits of an operand of a sum behind its point, and the lower bits of its multiplier. */
enum { FRACTION = 20, LOWER = 31 - FRACTION };

/* An operand and its registers: number n has the lanes n / PARTS * step + n % PARTS * LANES; by `sign` it is taken away. */
typedef struct {
    const uint8_t *x;
    int64_t step;
    ints zero, sign;
} operand;

/* Both operands, how the first one comes to the steps of a sum, of which the second one's are half, and how the result comes
 * to its own. A value. */
typedef struct {
    operand operands[2];
    ints upper, lower, rounds, half, right;
    fixed_lanes result;
} fixed_pair;

static operand operand_of(const uint8_t *x, int64_t step, float zero, float scale) {
    return (operand){x, step, (ints){0} + (int32_t)zero, (ints){0} - (scale < 0)};
}

/* How results become bytes; `rows`: memory for what it refers to. */
static fixed_lanes result_of(const rt_quantized_pair *pair, float rows[4][LANES]) {
    static const float none[LANES];
    const int32_t multiplier = pair->multipliers[2], shift = pair->shifts[2];
    const bool is_near = shift >= -31 && shift <= -1;
    const float unit = ldexpf(1.0f, is_near ? shift + FINE : 0);
    for (int i = 0; i < LANES; i++) {
        memcpy(&rows[0][i], &multiplier, sizeof multiplier);
        memcpy(&rows[1][i], &shift, sizeof shift);
        rows[2][i] = (float)multiplier * 0x1p-31f * unit;
        rows[3][i] = 0.5f * unit;
    }
    const rt_quantized_end end = {
        .scales = rows[0], .shifts = LANES, .a = pair->low, .b = pair->high, .bytes = is_near ? RT_BYTES_NEAR : 0};
    return fixed_lanes_of(&end, none, 0, false);
}

static fixed_pair fixed_pair_of(const rt_quantized_pair *pair, float rows[4][LANES]) {
    const ints none = {0};
    const operand a = operand_of(pair->a, RT_BLOCK, pair->a_zero, pair->a_scale);
    const operand b = operand_of(pair->b, pair->b_step, pair->b_zero, pair->b_scale);
    const int first = pair->multipliers[0] == 1 << 30 && pair->shifts[0] == 0; /* a half */
    const int32_t multiplier = pair->multipliers[first], shift = pair->shifts[first];
    const int32_t right = shift < 0 && shift >= -31 ? -shift : 0;
    return (fixed_pair){
        .operands = {first ? b : a, first ? a : b},
        .upper = none + (multiplier >> LOWER),
        .lower = none + (multiplier & ((1 << LOWER) - 1)),
        .rounds = none - (right > 0),
        .half = none + (right > 0 ? 1 << (right - 1) : 0),
        .right = none + right,
        .result = result_of(pair, rows),
    };
}

INLINE ints operand_load(const operand *from, int64_t number) {
    return integers_load(from->x + number / PARTS * from->step + number % PARTS * LANES) - from->zero;
}

INLINE ints signed_operand(const operand *from, ints v) { return (v ^ from->sign) - from->sign; }

/* A sum of differences of bytes. The first is multiplied by 2^FRACTION and its multiplier, as fixed_product does it: 32 bits
 * hold its products with both parts of the multiplier. */
INLINE ints sum_of(const fixed_pair *by, ints first, ints second) {
    first = first * by->upper + ((first * by->lower + (1 << (LOWER - 1))) >> LOWER);
    first = (first + by->half + ((first >> 31) & by->rounds)) >> by->right;
    return signed_operand(&by->operands[0], first) + signed_operand(&by->operands[1], second * (1 << (FRACTION - 1)));
}

/* Some registers from number `first` on, by fixed point, as TFLite has it. */
INLINE void registers_compute(const fixed_pair *by, bool multiplies, int64_t first, int count, uint8_t *y) {
    ints sums[4];
    UNROLLED for (int i = 0; i < count; i++) {
        const ints a = operand_load(&by->operands[0], first + i), b = operand_load(&by->operands[1], first + i);
        sums[i] = multiplies ? a * b : sum_of(by, a, b);
    }
    some_store(&by->result, sums, 1, count, y + first * LANES, LANES);
}

#ifdef FINE_FLOATS
/* A sum in floats errs by less than SUM_ERR fine steps where the scales of operands, over the result's, add up to at most
 * MOST_SCALES, s: an operand has up to 2^24 s of them, and the roundings of both scales, of what is added and of the first
 * sum change that by 3 s + 2, that of the whole by another one, and TFLite's own, of the operand that is not halved, by
 * s / 8, and of the sum. */
enum { SUM_ERR = 16, MOST_SCALES = 4 };

/* Sums of AT_ONCE registers, in floats where these are sure; returns how many registers have been computed. */
static int64_t sums_compute(const rt_quantized_pair *pair, const fixed_pair *by, int64_t count) {
    enum { AT_ONCE = 4 };
    const float a_scale = ldexpf(pair->a_scale, FINE), b_scale = ldexpf(pair->b_scale, FINE);
    const double zeros = (double)pair->a_zero * a_scale + (double)pair->b_zero * b_scale;
    const lanes start = (lanes){0} + (float)(fine_start(pair->low, SUM_ERR) - zeros), most = by->result.most;
    int64_t i = 0;
    if (!(fabsf(pair->a_scale) + fabsf(pair->b_scale) <= MOST_SCALES)) return 0;
    for (; i + AT_ONCE <= count; i += AT_ONCE) {
        ints v[AT_ONCE], least = (ints){0} - 1;
        UNROLLED for (int k = 0; k < AT_ONCE; k++) {
            const int64_t block = (i + k) / PARTS, lane = (i + k) % PARTS * LANES;
            const lanes a = bytes_load(pair->a + block * RT_BLOCK + lane), b = bytes_load(pair->b + block * pair->b_step + lane);
            v[k] = rounded(lanes_min(most, a * a_scale + (b * b_scale + start)));
            least = least_lower(least, v[k]);
        }
        if (__builtin_expect(lower_exceed(least, 2 * SUM_ERR), 1)) {
            registers_pack(pair->y + i * LANES, LANES, v, AT_ONCE, 0, 255, false, ARE_UPPER);
        } else {
            registers_compute(by, false, i, AT_ONCE, pair->y);
        }
    }
    return i;
}
#endif

static void fixed_compute(const rt_quantized_pair *pair) {
    float rows[4][LANES];
    const rt_quantized_pair own = *pair; /* stores could change it, for all that the compiler knows */
    const fixed_pair by = fixed_pair_of(&own, rows);
    const int64_t count = own.blocks * PARTS;
    int64_t i = 0;
    if (own.multiplies) {
        for (; i < count; i++) registers_compute(&by, true, i, 1, own.y);
        return;
    }
#ifdef FINE_FLOATS
    i = sums_compute(&own, &by, count);
#endif
    for (; i + 4 <= count; i += 4) registers_compute(&by, false, i, 4, own.y);
    for (; i < count; i++) registers_compute(&by, false, i, 1, own.y);
}

void NAME(rt_lanes_quantized_pair_)(const rt_quantized_pair *pair) {
    if (pair->fixed) {
        fixed_compute(pair);
    } else if (pair->multiplies) {
        blocks_compute(pair, true);
    } else {
        blocks_compute(pair, false);
    }
}

/* Steps, within the bounds of bytes. */
INLINE lanes steps_of(lanes v, lanes low) { return clamp(choose(v > low, v, low), low, low + 255.0f); }

INLINE void floats_quantize(const float *x, float by, bool divides, int32_t zero, int64_t count, uint8_t *y) {
    const lanes low = (lanes){0} - (float)zero;
    for (int64_t i = 0; i < count; i += LANES) bytes_store(y + i, steps_of(divides ? load(x + i) / by : load(x + i) * by, low), -zero);
}

void NAME(rt_lanes_quantize_)(const float *x, float per_step, int32_t zero, int64_t count, uint8_t *y) {
    floats_quantize(x, per_step, false, zero, count, y);
}

void NAME(rt_lanes_quantize_by_)(const float *x, float step, int32_t zero, int64_t count, uint8_t *y) {
    floats_quantize(x, step, true, zero, count, y);
}

void NAME(rt_lanes_extend_)(const float *x, int64_t blocks, uint32_t count, float *range) {
    enum { AT_ONCE = PARTS < 4 ? 4 / PARTS : 1, REGISTERS = AT_ONCE * PARTS };
    lanes low[REGISTERS], high[REGISTERS];
    float least[REGISTERS * LANES], most[REGISTERS * LANES];
    int64_t i = 0;
    UNROLLED for (int r = 0; r < REGISTERS; r++) low[r] = (lanes){0} + range[0], high[r] = (lanes){0} + range[1];
    for (; i + AT_ONCE <= blocks; i += AT_ONCE) {
        UNROLLED for (int r = 0; r < REGISTERS; r++) {
            const lanes v = load(x + i * RT_BLOCK + r * LANES);
            low[r] = lanes_min(v, low[r]), high[r] = lanes_max(v, high[r]);
        }
    }
    for (; i < blocks; i++) {
        UNROLLED for (int r = 0; r < PARTS; r++) {
            const lanes v = load(x + i * RT_BLOCK + r * LANES);
            low[r] = lanes_min(v, low[r]), high[r] = lanes_max(v, high[r]);
        }
    }
    UNROLLED for (int r = 0; r < REGISTERS; r++) store(least + r * LANES, low[r]), store(most + r * LANES, high[r]);
    for (uint32_t lane = 0; lane < REGISTERS * LANES; lane++) {
        if (lane % RT_BLOCK >= count) continue;
        if (least[lane] < range[0]) range[0] = least[lane];
        if (most[lane] > range[1]) range[1] = most[lane];
    }
}

#if RT_BLOCK == 8 || LANES == 16 /* once for both blocks */
/* Whole registers of pixels whose channels are planes. */
APART void planes_quantize(const float *x, int64_t plane, int64_t channels, float per_step, int32_t zero, int64_t count,
                           uint32_t *y) {
    const lanes low = (lanes){0} - (float)zero;
    for (int64_t i = 0; i < count; i += LANES) {
        ints quads = {0};
        for (int64_t c = 0; c < channels; c++) {
            quads |= (rounded(steps_of(load(x + c * plane + i) * per_step, low)) + zero) << (int)(8 * c);
        }
        memcpy(y + i, &quads, sizeof quads);
    }
}

/* Bytes of pixels that follow each other, a word for each; what lies behind the last ones is read, too. */
INLINE void pixels_widen(const uint8_t *x, int64_t channels, uint32_t *y) {
#if LANES == 16
    if (channels == 3) {
        const __m512i threes = _mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
        const __m512i places = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
        _mm512_storeu_si512(y, _mm512_shuffle_epi8(_mm512_permutexvar_epi32(threes, _mm512_loadu_si512(x)), places));
        return;
    }
#endif
    for (int64_t p = 0; p < LANES; p++) memcpy(y + p, x + p * channels, RT_QUAD);
}

/* Fewer pixels than a register has, whose channels are planes, or follow each other. */
APART void rest_quantize(const float *x, int64_t plane, int64_t channels, float per_step, int32_t zero, int64_t count,
                         uint32_t *y) {
    float held[RT_QUAD * LANES] = {0};
    uint32_t made[LANES];
    for (int64_t c = 0; c < channels; c++) {
        const float *source = plane > 0 ? x + c * plane : x + c;
        for (int64_t p = 0; p < count; p++) held[c * LANES + p] = source[plane > 0 ? p : p * channels];
    }
    planes_quantize(held, LANES, channels, per_step, zero, LANES, made);
    memcpy(y, made, (size_t)count * sizeof *y);
}

void rt_lanes_quads(const float *x, int64_t plane, int64_t channels, float per_step, int32_t zero, int64_t count,
           uint32_t *y) {
    enum { TOGETHER = 4 * LANES }; /* stores are over before what they wrote is loaded */
    const int64_t whole = count / LANES * LANES;
    uint8_t made[RT_QUAD * TOGETHER + 4 * LANES] = {0};
    if (plane > 0) planes_quantize(x, plane, channels, per_step, zero, whole, y);
    for (int64_t i = 0; plane == 0 && i < whole; i += TOGETHER) {
        const int64_t some = whole - i < TOGETHER ? whole - i : TOGETHER;
        NAME(rt_lanes_quantize_)(x + i * channels, per_step, zero, some * channels, made);
        for (int64_t p = 0; p < some; p += LANES) pixels_widen(made + p * channels, channels, y + i + p);
    }
    if (whole < count) {
        rest_quantize(x + whole * (plane > 0 ? 1 : channels), plane, channels, per_step, zero, count - whole, y + whole);
    }
}
#endif

void NAME(rt_lanes_dequantize_)(const uint8_t *x, float step, int32_t zero, int64_t count, float *y) {
    for (int64_t i = 0; i < count; i += LANES) store(y + i, (bytes_load(x + i) - (float)zero) * step);
}
