/* Sums and products of two blocked tensors of eight bits: each lane for itself. */
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

void NAME(rt_lanes_quantized_pair_)(const rt_quantized_pair *pair) {
    if (pair->multiplies) {
        blocks_compute(pair, true);
    } else {
        blocks_compute(pair, false);
    }
}
