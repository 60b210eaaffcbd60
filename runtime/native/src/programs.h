/* Programs: built once for each source and options, from the compiled-kernels file where that has them.
 *
 * State: an rt_programs, with every program that was built, and the counts and time of it. One thread at a time.
 */
#ifndef RT_PROGRAMS_H
#define RT_PROGRAMS_H

#include <stdint.h>

#include "../include/farmrt.h"
#include "device.h"
#include "kernels.h"
#include "opencl.h"
#include "plan.h"

typedef struct rt_programs rt_programs;

/* A program that was built: key `<source hash>|<options>`. Written by programs.c alone. */
typedef struct {
    const char *source_hash; /* in the plan */
    const char *options;
    cl_program object;
} rt_program;

/* Where the programs came from, and how long that took. A value. */
typedef struct {
    uint32_t loaded, built; /* from the file; from source */
    uint64_t build_ns;      /* of both */
} rt_program_counts;

/* None yet, for rt_programs_destroy. `device` may be NULL: then none may be asked for. What the driver does not accept
 * from the file is told to `kernels`. RT_NO_MEMORY; `*programs` is NULL then. */
rt_status rt_programs_create(rt_programs **programs, const rt_plan *plan, const rt_device *device, rt_kernels *kernels,
                             rt_error *error);

/* Releases every program; kernels made of them must be released before. NULL is ignored. */
void rt_programs_destroy(rt_programs *programs);

/* The built program of a plan's source (index) with these options; it stays the programs'. `build_ns` is 0 when it was
 * built before. RT_BUILD_FAILED with the compiler's log, RT_OPENCL or RT_NO_MEMORY: nothing is kept then. */
rt_status rt_programs_get(rt_programs *programs, uint32_t source, const char *options, cl_program *program,
                          uint64_t *build_ns, rt_error *error);

/* Every program that was built; an index is below the count, and the answer valid until the next is built. */
uint32_t rt_programs_count(const rt_programs *programs);
const rt_program *rt_programs_at(const rt_programs *programs, uint32_t index);

/* The counts since it was made. */
rt_program_counts rt_programs_counts(const rt_programs *programs);

#endif
