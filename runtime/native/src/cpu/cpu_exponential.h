/* exp without a branch or a call, so that loops over it become vector code. Without state. */
#ifndef RT_CPU_EXPONENTIAL_H
#define RT_CPU_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

/* 2 to the power of a whole number from -126 to 127. */
static inline float rt_power_of_two(int32_t exponent) {
    uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* e to the power of v, within 2e-7 of it: 2^n * e^r, |r| <= log(2)/2, where e^r is a polynomial that was fitted for the
 * least relative error. 0 and infinity where a float cannot hold it; a NaN stays a NaN. */
static inline float rt_exp(float v) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to a whole number */
    float below = 89.0f < v ? 89.0f : v, within = -104.0f > below ? -104.0f : below; /* an instruction each */
    float shifted = within * 1.44269504f + shift, whole = shifted - shift;
    float r = within - whole * 0.693359375f + whole * 2.12194440e-4f;
    float power = 1.0f + r + r * r * (0.49999993f + r * (0.16666515f + r * (0.041668457f + r * (0.0083694188f + r * 0.0013813143f))));
    int32_t n, half;
    memcpy(&n, &shifted, sizeof n);
    n -= 0x4B400000; /* the bits of the shift */
    half = n >> 1;
    return power * rt_power_of_two(half) * rt_power_of_two(n - half);
}

#endif
