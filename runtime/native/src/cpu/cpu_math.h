/* Scalar functions of the CPU operators, the same as the kernels' (runtime/kernels/prelude.cl). A NaN stays a NaN.
 * Without state. */
#ifndef RT_CPU_MATH_H
#define RT_CPU_MATH_H

#include <math.h>
#include <stdint.h>

#include "../plan/format.h"

/* `v` within low .. high. */
static inline float rt_clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

/* The greater of two; a NaN on either side is the result. */
static inline float rt_greater(float a, float b) { return a > b || a != a ? a : b; }

/* The smaller of two; a NaN on either side is the result. */
static inline float rt_less(float a, float b) { return a < b || a != a ? a : b; }

/* The activations but tanh; `a` and `b` are their parameters (runtime/kernels/codes.py). */
static inline float rt_sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }
static inline float rt_leaky_relu(float v, float a) { return v < 0.0f ? v * a : v; }
static inline float rt_elu(float v, float a) { return v < 0.0f ? (expf(v) - 1.0f) * a : v; }
static inline float rt_hard_sigmoid(float v, float a, float b) { return rt_clamp(v * a + b, 0.0f, 1.0f); }
static inline float rt_hard_swish(float v) { return v * rt_clamp(v / 6.0f + 0.5f, 0.0f, 1.0f); }
static inline float rt_swish(float v, float a) { return v * rt_sigmoid(a * v); }
static inline float rt_celu(float v, float a) { return v < 0.0f ? (expf(v / a) - 1.0f) * a : v; }
static inline float rt_gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }
static inline float rt_gelu_tanh(float v) {
    return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}

/* log(1 + e^v), written so that a large `v` does not overflow. */
static inline float rt_softplus(float v) { return (v > 0.0f ? v : v != v ? v : 0.0f) + log1pf(expf(-fabsf(v))); }

/* By code (RT_ACTIVATION_...); an unknown one is a clamp. */
static inline float rt_activate(uint32_t activation, float v, float a, float b) {
    switch (activation) {
        case RT_ACTIVATION_SIGMOID: return rt_sigmoid(v);
        case RT_ACTIVATION_TANH: return tanhf(v);
        case RT_ACTIVATION_LEAKY_RELU: return rt_leaky_relu(v, a);
        case RT_ACTIVATION_ELU: return rt_elu(v, a);
        case RT_ACTIVATION_HARD_SIGMOID: return rt_hard_sigmoid(v, a, b);
        case RT_ACTIVATION_HARD_SWISH: return rt_hard_swish(v);
        case RT_ACTIVATION_GELU: return rt_gelu(v);
        case RT_ACTIVATION_GELU_TANH: return rt_gelu_tanh(v);
        case RT_ACTIVATION_SWISH: return rt_swish(v, a);
        case RT_ACTIVATION_MISH: return v * tanhf(rt_softplus(v));
        case RT_ACTIVATION_SELU: return rt_elu(v, a) * b;
        case RT_ACTIVATION_CELU: return rt_celu(v, a);
        default: return rt_clamp(v, a, b);
    }
}

#endif
