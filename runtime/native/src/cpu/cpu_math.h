/* Scalar functions of the CPU operators, the same as the kernels' (runtime/kernels/prelude.cl), and those of one tensor.
 * A NaN stays a NaN. Without state. */
#ifndef RT_CPU_MATH_H
#define RT_CPU_MATH_H

#include <stdint.h>

#include "format.h"
#include "cpu_functions.h"

/* The greater of two; a NaN on either side is the result. */
static inline float rt_greater(float a, float b) { return a > b || a != a ? a : b; }

/* The smaller of two; a NaN on either side is the result. */
static inline float rt_less(float a, float b) { return a < b || a != a ? a : b; }

/* By code (RT_UNARY_...); one that is no activation is a clamp. */
#define RT_CASE(code, call) \
    case code: return call;
static inline float rt_activate(uint32_t activation, float v, float a, float b) {
    switch (activation) {
        RT_ACTIVATIONS(RT_CASE)
        default: return rt_unary_clamp(v, a, b);
    }
}
#undef RT_CASE

#endif
