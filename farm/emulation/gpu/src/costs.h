/* What kernels cost: `kernels.costs`, a section for each kernel, evaluated for one launch.
 *
 *     [conv1x1 image]                          a kernel's name, and the memory that its arguments lie in
 *     macs = in_c * 4 * BLOCKS * PIXELS        multiply-accumulates of a work item
 *     registers = 16 + 4 * BLOCKS * PIXELS     of a work item, 32 bits each
 *     access = 16                              bytes of one access to memory
 *     read near 1,2 = in_c * PIXELS * element  bytes of a work item, which are others' along axes 1 and 2 only
 *     write far 0,1,2 = ...
 *
 * `weights` in place of `read`: constants of the model, which with -DCONSTANT lie in constant memory where that has room.
 * `near`: neighbours on the first of the axes lie beside each other in memory; `far`: each in a line of its own. Names
 * in expressions are the program's options, the kernel's int arguments, `element` (bytes of a stored number) and `real`
 * (bytes of a number in arithmetic), and `joining`: what it costs the LANES work items of a group to join a value, in
 * multiply-accumulates, and `dots`: how many of these one instruction does. What a program stores in fewer bits (BYTES,
 * WEIGHT_BITS) counts as much less. A kernel without a section has that of its memory alone: `[* image]`.
 */
#ifndef PLAYED_COSTS_H
#define PLAYED_COSTS_H

#include <stdbool.h>
#include <stddef.h>

#include "values.h"

enum { PLAYED_OPERANDS = 8 };

/* What a work item reads or writes. */
typedef struct {
    bool write, near, weights;
    int first_axis; /* -1: none */
    bool axis[3]; /* whether work items that differ there have other bytes */
    double bytes;
} played_operand;

/* What one work item of a launch does. A value. */
typedef struct {
    bool image, half, constant; /* constant: its weights are declared so */
    int fma; /* 0: a*b+c, else a form of its own */
    double macs, registers, access;
    played_operand operands[PLAYED_OPERANDS];
    size_t count;
} played_work;

/* Reads the file, once; false with one line in `error`. */
bool played_costs_read(const char *path, char *error, size_t size);

/* The work of a kernel; false with one line in `error` where the file's section is wrong. Adds `element` and `real` to
 * the values. */
bool played_costs_of(const char *kernel, bool image, played_values *values, played_work *work, char *error,
                     size_t size);

#endif
