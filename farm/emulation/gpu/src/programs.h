/* What others ask of kernels. */
#ifndef PLAYED_PROGRAMS_H
#define PLAYED_PROGRAMS_H

#include <stdbool.h>

#include "costs.h"
#include "played.h"

/* The work of a launch of the kernel with its arguments. */
played_work played_kernel_work(cl_kernel kernel);

/* The largest work group of a kernel. */
size_t played_kernel_limit(cl_kernel kernel);

/* Whether its launches change nothing (wrong_on). */
bool played_kernel_is_wrong(cl_kernel kernel);

/* Whether an argument is memory that a launch must not be given (host_ptr = fails_late). */
bool played_kernel_fails(cl_kernel kernel);

#endif
