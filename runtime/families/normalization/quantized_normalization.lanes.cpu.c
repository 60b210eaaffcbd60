/* Rows of bytes normalised to bytes, whose sums are whole numbers. */
#include "../../native/src/cpu/cpu_lanes_bytes.h"

void NAME(rt_lanes_quantized_normalize_)(const rt_quantized_norm *row) {
    const rt_quantized_norm own = *row; /* stores could change it, for all that the compiler knows */
    ints sum = {0}, squares = {0};
    for (int64_t i = 0; i < own.count; i += LANES) {
        const ints v = integers_load(own.x + i);
        sum += v;
        squares += v * v;
    }
    const double count = (double)own.count, total = integers_total(sum);
    const double mean = own.centered ? total / count : own.zero;
    const double variance = (integers_total(squares) - 2 * mean * total) / count + mean * mean;
    const lanes less = (lanes){0} + (float)mean, factor = (lanes){0} + 1.0f / sqrtf((float)variance + own.epsilon);
    const lanes low = (lanes){0} + own.low, high = (lanes){0} + own.high;
    for (int64_t i = 0; i < own.count; i += RT_BLOCK) {
        lanes v[PARTS];
        UNROLLED for (int part = 0; part < PARTS; part++) {
            const int64_t at = i + part * LANES;
            v[part] = (bytes_load(own.x + at) - less) * factor * load(own.s + at) + load(own.t + at);
        }
        registers_store(own.y + i, LANES, v, PARTS, low, high, false);
    }
}
