/* Compiled kernels: binaries of programs, from a file.
 *
 * State: an rt_kernels, with the file's content and the set that was chosen from it. Without a file there is an
 * rt_kernels too, one that has no binaries.
 */
#ifndef RT_KERNELS_H
#define RT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "device.h"
#include "../system/file.h"
#include "fingerprint.h"
#include "../plan/plan.h"

typedef struct rt_kernels rt_kernels;

/* Checks the whole file and chooses a set, only an exact match, for rt_kernels_close; a source that is not given means
 * no binaries. `device` is NULL where the plan does not use OpenCL. A file that fits nothing is no error. RT_BAD_FILE,
 * RT_IO or RT_NO_MEMORY; `*kernels` is NULL then. */
rt_status rt_kernels_open(rt_kernels **kernels, const rt_source *source, const rt_plan *plan, const rt_device *device,
                          const char *soc, rt_error *error);

/* Releases it, and the binaries that were found in it; NULL is ignored. */
void rt_kernels_close(rt_kernels *kernels);

/* The binary for `<source_hash>|<options>` and its size; NULL where there is none. It lies in the file. */
const uint8_t *rt_kernels_find(const rt_kernels *kernels, const char *source_hash, const char *options, size_t *size);

/* Says that the driver refused a binary, with its error's name: the fit's reason tells it. */
void rt_kernels_refused(rt_kernels *kernels, const char *code_name);

/* How the file was used. */
const rt_fit *rt_kernels_fit(const rt_kernels *kernels);

#endif
