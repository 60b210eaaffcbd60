/* What every other file needs: errors, allocation, time. */
#ifndef RT_BASE_H
#define RT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/farmrt.h"

#define RT_PRINTF(at, first) __attribute__((format(printf, at, first)))
#define RT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Fills `error` (may be NULL) and returns `status`. */
rt_status rt_error_set(rt_error *error, rt_status status, const char *format, ...) RT_PRINTF(3, 4);
rt_status rt_error_no_memory(rt_error *error, const char *what);

/* The one allocator. Memory is zeroed; NULL when there is none or count * size overflows. */
void *rt_memory_allocate(size_t count, size_t size);
void *rt_memory_allocate_aligned(size_t count, size_t size);
/* Like realloc; the grown part is not zeroed, and `old` stays valid on failure. */
void *rt_memory_grow(void *old, size_t count, size_t size);
char *rt_memory_copy_string(const char *text);
void rt_memory_free(void *memory);
void rt_memory_free_aligned(void *memory);

#ifdef RT_TEST_ALLOCATION
/* Sanitized builds: the so-manieth allocation from now fails; 0: none. */
extern uint64_t rt_memory_failing_call;
#endif

/* Monotonic clock. */
uint64_t rt_clock_ns(void);
void rt_clock_sleep_ms(uint32_t ms);

static inline uint64_t rt_ceil_div(uint64_t value, uint64_t divisor) {
    return value / divisor + (value % divisor != 0);
}

/* Product and sum that stay at UINT64_MAX once they overflow. */
static inline uint64_t rt_product(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline uint64_t rt_sum(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

#endif
