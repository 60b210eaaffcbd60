/* The one allocator: every byte of farmrt's own comes from here, so that tests can let any allocation fail.
 *
 * It has no state but for the tests' countdown, and may be called from any thread. Memory is zeroed, so that a struct
 * can be released by its destroy function however far its making came.
 */
#ifndef RT_ALLOCATION_H
#define RT_ALLOCATION_H

#include <stddef.h>
#include <stdint.h>

/* `count` zeroed elements, for rt_memory_free. No elements are still a pointer of their own. NULL when there is no
 * memory, or count * size overflows. */
void *rt_memory_allocate(size_t count, size_t size);

/* The same, aligned to a cache line (64 bytes), for rt_memory_free_aligned. */
void *rt_memory_allocate_aligned(size_t count, size_t size);

/* Like realloc, for memory of rt_memory_allocate or NULL. What is new is not zeroed. NULL when there is no memory: then
 * `old` is still valid, and still the caller's. */
void *rt_memory_grow(void *old, size_t count, size_t size);

/* A copy of a string, for rt_memory_free; NULL when there is no memory. */
char *rt_memory_copy_string(const char *text);

/* Each releases what its own allocation returned; NULL is ignored. */
void rt_memory_free(void *memory);
void rt_memory_free_aligned(void *memory);

#ifdef RT_TEST_ALLOCATION

/* Sanitized builds alone: the so-manieth allocation from now on fails; 0: none. Not thread-safe. */
void rt_memory_fail_at(uint64_t call);
#endif

#endif
