/* Sums and products of two blocked tensors of eight bits, and floats as bytes and back: each lane for itself. */
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

/* Bits of an operand of a sum behind its point, and the multiplier of the wider operand. */
enum { FRACTION = 20, HALF = 1 << 30 };

/* An operand of a sum by fixed point; half of it without a product. */
INLINE ints operand_scale(ints v, ints multiplier, ints shift, bool is_half) {
    return is_half ? v * (1 << (FRACTION - 1)) : fixed_product(v * (1 << FRACTION), multiplier, shift);
}

/* The same by fixed point, as TFLite has it. */
static void fixed_compute(const rt_quantized_pair *pair) {
    const rt_quantized_pair own = *pair;
    const int32_t low = (int32_t)own.low, high = (int32_t)own.high;
    const ints none = {0}, zeros[2] = {none + (int32_t)own.a_zero, none + (int32_t)own.b_zero};
    const ints signs[2] = {none - (own.a_scale < 0), none - (own.b_scale < 0)}; /* all bits: to be taken away */
    ints multipliers[3], shifts[3];
    bool is_half[2];
    for (int i = 0; i < 3; i++) multipliers[i] = none + own.multipliers[i], shifts[i] = none + own.shifts[i];
    for (int i = 0; i < 2; i++) is_half[i] = own.multipliers[i] == HALF && own.shifts[i] == 0;
    for (int64_t i = 0; i < own.blocks; i++) {
        UNROLLED for (int part = 0; part < RT_BLOCK; part += LANES) {
            ints v[2] = {integers_load(own.a + i * RT_BLOCK + part), integers_load(own.b + i * own.b_step + part)};
            UNROLLED for (int k = 0; k < 2; k++) {
                v[k] -= zeros[k];
                if (own.multiplies) continue;
                v[k] = operand_scale(v[k], multipliers[k], shifts[k], is_half[k]);
                v[k] = (v[k] ^ signs[k]) - signs[k];
            }
            ints made = fixed_product(own.multiplies ? v[0] * v[1] : v[0] + v[1], multipliers[2], shifts[2]);
            integers_store(own.y + i * RT_BLOCK + part, integers_clamp(made, none + low, none + high) - low);
        }
    }
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
