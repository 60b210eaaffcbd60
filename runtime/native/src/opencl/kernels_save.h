/* Writes the compiled programs of a loaded plan, with the fingerprint of its device: what kernels.h reads. Without
 * state. */
#ifndef RT_KERNELS_SAVE_H
#define RT_KERNELS_SAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../run/parts.h"

/* What was written. A value. */
typedef struct {
    uint32_t programs;
    uint64_t bytes;
} rt_saved_kernels;

/* Writes the programs that steps are launched from, with `trials` those of trials too. RT_UNSUPPORTED for a plan without
 * OpenCL, RT_OPENCL, RT_NO_MEMORY or RT_IO: the file is then as it was. */
rt_status rt_kernels_save(const rt_parts *parts, const char *path, bool trials, rt_saved_kernels *saved,
                          rt_error *error);

#endif
