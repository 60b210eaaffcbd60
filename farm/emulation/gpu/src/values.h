/* Names with numbers, such as a program's options and a kernel's arguments, and expressions of them. */
#ifndef PLAYED_VALUES_H
#define PLAYED_VALUES_H

#include <stdbool.h>
#include <stddef.h>

enum { PLAYED_NAME = 48, PLAYED_VALUES = 96 };

/* Filled by played_values_set alone. */
typedef struct {
    char name[PLAYED_VALUES][PLAYED_NAME];
    double value[PLAYED_VALUES];
    size_t count;
} played_values;

/* Sets a name of `length` bytes; names beyond the room are dropped. */
void played_values_set(played_values *values, const char *name, size_t length, double value);

/* The number of a name, or `otherwise`. */
double played_values_get(const played_values *values, const char *name, size_t length, double otherwise);

/* Reads `-DNAME=NUMBER` and `-DNAME` of build options. */
void played_values_options(played_values *values, const char *options);

/* Evaluates + - * / ( ), numbers, names (0 where unknown), up(a): rounded up, or(a, b): b where a is 0, least(a, b),
 * most(a, b). False where the text is no expression. */
bool played_evaluate(const char *text, const played_values *values, double *result);

#endif
