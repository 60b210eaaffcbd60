/* Arithmetic on sizes that a file states, which may be anything: results saturate instead of wrapping round, so that a
 * sum or product can be compared with a limit in one step. */
#ifndef RT_ARITHMETIC_H
#define RT_ARITHMETIC_H

#include <stdint.h>

/* Elements of an array, not of a pointer. */
#define RT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The quotient rounded up; it cannot overflow. `divisor` is not 0. */
static inline uint64_t rt_ceil_div(uint64_t value, uint64_t divisor) {
    return value / divisor + (value % divisor != 0);
}

/* The product, UINT64_MAX where it overflows. */
static inline uint64_t rt_product(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* The sum, UINT64_MAX where it overflows. */
static inline uint64_t rt_sum(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

#endif
