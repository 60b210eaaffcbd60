/* The kernels of an OpenCL source, as their first lines declare them: `kernel void name(type argument, ...)`. */
#ifndef PLAYED_SIGNATURE_H
#define PLAYED_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>

#include "values.h"

enum { PLAYED_ARGUMENTS = 96 };
enum { PLAYED_INT, PLAYED_FLOAT, PLAYED_POINTER, PLAYED_LOCAL, PLAYED_READ_IMAGE, PLAYED_WRITE_IMAGE };

/* A value. */
typedef struct {
    char name[PLAYED_ARGUMENTS][PLAYED_NAME];
    int kind[PLAYED_ARGUMENTS];
    size_t count;
    bool image; /* whether any argument is one */
} played_signature;

/* The signature of a kernel; without arguments where the source has no such kernel. */
played_signature played_signature_of(const char *source, const char *kernel);

/* A source with the same kernels, which do nothing, for free; NULL without memory. */
char *played_empty_source(const char *source);

#endif
