#include "allocation.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

#ifdef RT_TEST_ALLOCATION
static uint64_t calls_until_failure; /* 0: none fails */

void rt_memory_fail_at(uint64_t call) { calls_until_failure = call; }

/* Counts one call down; whether it is the one that must fail. */
static bool allocation_fails(void) { return calls_until_failure > 0 && --calls_until_failure == 0; }
#else
static bool allocation_fails(void) { return false; }
#endif

void *rt_memory_allocate(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || allocation_fails()) return NULL;
    return calloc(1, bytes ? bytes : 1);
}

/* From calloc, which need not touch the pages of large memory; what it returned stands in front of the aligned part. */
void *rt_memory_allocate_aligned(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, 2 * ALIGNMENT, &bytes))
        return NULL;
    if (allocation_fails()) return NULL;
    uint8_t *whole = calloc(1, bytes);
    if (whole == NULL) return NULL;
    uint8_t *aligned = whole + sizeof whole;
    aligned += ALIGNMENT - (uintptr_t)aligned % ALIGNMENT;
    memcpy(aligned - sizeof whole, &whole, sizeof whole);
    return aligned;
}

void *rt_memory_grow(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || allocation_fails()) return NULL;
    return realloc(old, bytes ? bytes : 1);
}

char *rt_memory_copy_string(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = rt_memory_allocate(size, 1);
    if (copy != NULL) memcpy(copy, text, size);
    return copy;
}

void rt_memory_free(void *memory) { free(memory); }

void rt_memory_free_aligned(void *memory) {
    uint8_t *whole;
    if (memory == NULL) return;
    memcpy(&whole, (uint8_t *)memory - sizeof whole, sizeof whole);
    free(whole);
}
