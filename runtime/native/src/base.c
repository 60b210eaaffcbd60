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

void *rt_memory_allocate(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return calloc(1, bytes ? bytes : 1);
}

void *rt_memory_allocate_aligned(size_t count, size_t size) {
    size_t bytes;
    void *memory = NULL;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGNMENT) return NULL;
    if (posix_memalign(&memory, ALIGNMENT, bytes ? bytes : 1) != 0) return NULL;
    memset(memory, 0, bytes);
    return memory;
}

void *rt_memory_grow(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return realloc(old, bytes ? bytes : 1);
}

char *rt_memory_copy_string(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = rt_memory_allocate(size, 1);
    if (copy != NULL) memcpy(copy, text, size);
    return copy;
}

void rt_memory_free(void *memory) { free(memory); }

void rt_memory_free_aligned(void *memory) { free(memory); }

uint64_t rt_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void rt_clock_sleep_ms(uint32_t ms) {
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}
