/* The softmax of a row of bytes, as bytes. */
#include "../../native/src/cpu/cpu_lanes_bytes.h"

/* e^(-step * below) of each lane; anything where that is no byte. */
INLINE lanes exponentials_of(ints below, const float *exponentials) {
#if LANES == 16
    /* of the lower four bits times that of the upper ones */
    const __m512 low = _mm512_permutexvar_ps((__m512i)below, _mm512_loadu_ps(exponentials));
    return (lanes)(low * _mm512_permutexvar_ps(_mm512_srli_epi32((__m512i)below, 4), _mm512_loadu_ps(exponentials + 256)));
#elif LANES == 8 && defined(__AVX2__)
    return (lanes)_mm256_i32gather_ps(exponentials, (__m256i)(below & 255), sizeof(float));
#else
    lanes found;
    UNROLLED for (int i = 0; i < LANES; i++) found[i] = exponentials[below[i] & 255];
    return found;
#endif
}

/* Those of a register of bytes less than `most`; 0 of lanes from `count` on. */
INLINE lanes row_load(const uint8_t *row, int32_t most, int64_t count, const float *exponentials) {
    ints places;
    UNROLLED for (int i = 0; i < LANES; i++) places[i] = i;
    const lanes found = exponentials_of(most - integers_load(row), exponentials);
    return count >= LANES ? found : choose(places < (int32_t)count, found, (lanes){0});
}

int32_t NAME(rt_lanes_quantized_softmax_)(uint8_t *row, int64_t count, const float *exponentials, float per_weight,
                                          int32_t zero) {
    const lanes high = (lanes){0} + (255.0f - (float)zero);
    lanes total = {0};
    ints sum = {0};
    uint8_t most = 0;
    float divisor = 0.0f;
    for (int64_t i = 0; i < count; i++) most = row[i] > most ? row[i] : most;
    for (int64_t i = 0; i < count; i += LANES) total += row_load(row + i, most, count - i, exponentials);
    UNROLLED for (int i = 0; i < LANES; i++) divisor += total[i];
    const float factor = per_weight / divisor;
    for (int64_t i = 0; i < count; i += LANES) {
        const ints whole = rounded(lanes_min(high, row_load(row + i, most, count - i, exponentials) * factor));
        integers_store(row + i, whole + zero);
        sum += whole;
    }
    return integers_total(sum);
}
