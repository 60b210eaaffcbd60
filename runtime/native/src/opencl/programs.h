/* Programs: built once for each source and options, from the compiled-kernels file where that has them.
 *
 * State: an rt_programs, with every program that was built, the counts and time of it, and
 * the one that is being built ahead. One thread at a time; the builder's own thread touches none of it.
 */
#ifndef RT_PROGRAMS_H
#define RT_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "device.h"
#include "kernels.h"
#include "opencl.h"
#include "../plan/plan.h"

typedef struct rt_programs rt_programs;

/* A program that was built: key `<source hash>|<options>`. Written by programs.c alone. */
typedef struct {
    const char *source_hash; /* in the plan */
    const char *options;
    cl_program object;
    uint64_t unclaimed_ns; /* how long its build took, where it was built ahead and not asked for since */
} rt_program;

/* How long the build of a program took, and how much of that was over before anybody waited for it. A value. */
typedef struct {
    uint64_t build_ns, hidden_ns;
} rt_build_times;

/* Where the programs came from, and how long that took. A value. */
typedef struct {
    uint32_t loaded, built; /* from the file; from source */
    uint64_t build_ns;      /* of both */
} rt_program_counts;

/* None yet, for rt_programs_destroy. `device` may be NULL: then none may be asked for. What the driver does not accept
 * from the file is told to `kernels`. RT_NO_MEMORY; `*programs` is NULL then. */
rt_status rt_programs_create(rt_programs **programs, const rt_plan *plan, const rt_device *device, rt_kernels *kernels,
                             rt_error *error);

/* Releases every program, waiting for the one that is being built; kernels made of them must be released before. NULL
 * is ignored. */
void rt_programs_destroy(rt_programs *programs);

/* The built program of a plan's source (index) with these options; it stays the programs'. Waits for what is being
 * built ahead, unless the program is there. `times` are 0 where it was there and somebody was told of its build.
 * RT_BUILD_FAILED with the compiler's log, RT_OPENCL or RT_NO_MEMORY: nothing is kept then. */
rt_status rt_programs_get(rt_programs *programs, uint32_t source, const char *options, cl_program *program,
                          rt_build_times *times, rt_error *error);

/* Begins to build a program in a thread of its own, and returns at once. Does nothing where it is there, or while
 * another one is being built. A failure is told to whoever asks for the program next. */
void rt_programs_build_ahead(rt_programs *programs, uint32_t source, const char *options);

/* Whether a program is being built ahead at this moment. */
bool rt_programs_is_building(const rt_programs *programs);

/* Every program that was built; an index is below the count, and the answer valid until the next is built. */
uint32_t rt_programs_count(const rt_programs *programs);
const rt_program *rt_programs_at(const rt_programs *programs, uint32_t index);

/* The counts since it was made. */
rt_program_counts rt_programs_counts(const rt_programs *programs);

#endif
