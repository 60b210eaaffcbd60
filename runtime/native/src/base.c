#include "base.h"

#include <stdarg.h>
#include <time.h>

enum { ALIGNMENT = 64 };

rt_status rt_error_set(rt_error *error, rt_status status, const char *format, ...) {
    if (error == NULL) return status;
    memset(error, 0, sizeof *error);
    error->status = status;
    error->step = RT_NO_STEP;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

rt_status rt_error_no_memory(rt_error *error, const char *what) {
    return rt_error_set(error, RT_NO_MEMORY, "not enough memory for %s", what);
}

const char *rt_status_name(rt_status status) {
    static const char *const names[] = {"ok",     "bad_command", "bad_file", "no_opencl", "unsupported", "build_failed",
                                        "opencl", "cpu",         "hang",     "io",        "no_memory"};
    return (size_t)status < RT_COUNT(names) ? names[status] : "unknown";
}

const char *rt_version(void) { return RT_VERSION; }

#ifdef RT_TEST_ALLOCATION
uint64_t rt_memory_failing_call;

static bool allocation_fails(void) { return rt_memory_failing_call > 0 && --rt_memory_failing_call == 0; }
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

uint64_t rt_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void rt_clock_sleep_ms(uint32_t ms) {
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}
