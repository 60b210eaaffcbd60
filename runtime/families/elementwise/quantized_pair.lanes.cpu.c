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

static fixed_pair fixed_pair_of(const rt_quantized_pair *pair) {
    const ints none = {0};
    const operand a = operand_of(pair->a, RT_BLOCK, pair->a_zero, pair->a_scale);
    const operand b = operand_of(pair->b, pair->b_step, pair->b_zero, pair->b_scale);
    const int first = pair->multipliers[0] == 1 << 30 && pair->shifts[0] == 0; /* a half */
    const int32_t multiplier = pair->multipliers[first], shift = pair->shifts[first];
    const int32_t right = shift < 0 && shift >= -31 ? -shift : 0;
    const bool is_near = pair->shifts[2] >= -31 && pair->shifts[2] <= -1;
    const int near_shift = is_near ? pair->shifts[2] : -1;
    return (fixed_pair){
        .operands = {first ? b : a, first ? a : b},
        .upper = none + (multiplier >> LOWER),
        .lower = none + (multiplier & ((1 << LOWER) - 1)),
        .rounds = none - (right > 0),
        .half = none + (right > 0 ? 1 << (right - 1) : 0),
        .right = none + right,
        .result = {.multiplier = none + pair->multipliers[2],
                   .shift = none + pair->shifts[2],
                   .scale = (lanes){0} + ldexpf((float)pair->multipliers[2], near_shift - 31),
                   .slack = (lanes){0} + ldexpf(1.0f, near_shift - 1),
                   .is_near = is_near,
                   .low = (int32_t)pair->low,
                   .high = (int32_t)pair->high},
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

static void fixed_compute(const rt_quantized_pair *pair) {
    const fixed_pair by = fixed_pair_of(pair);
    const int64_t count = pair->blocks * PARTS;
    uint8_t *y = pair->y;
    int64_t i = 0;
    if (pair->multiplies) {
        for (; i < count; i++) registers_compute(&by, true, i, 1, y);
        return;
    }
    for (; i + 4 <= count; i += 4) registers_compute(&by, false, i, 4, y);
    for (; i < count; i++) registers_compute(&by, false, i, 1, y);
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

void NAME(rt_lanes_quantize_)(const float *x, float per_step, int32_t zero, int64_t count, uint8_t *y) {
    const lanes low = (lanes){0} - (float)zero, high = low + 255.0f;
    for (int64_t i = 0; i < count; i += LANES) {
        lanes v = load(x + i) * per_step;
        bytes_store(y + i, clamp(choose(v > low, v, low), low, high), -zero);
    }
}

void NAME(rt_lanes_dequantize_)(const uint8_t *x, float step, int32_t zero, int64_t count, float *y) {
    for (int64_t i = 0; i < count; i += LANES) store(y + i, (bytes_load(x + i) - (float)zero) * step);
}
