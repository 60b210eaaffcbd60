/* The build of one program: the OpenCL calls, and what came of them. Without state and without memory of its own, so
 * that any thread may run one; what it found is told by whoever owns the programs.
 */
#ifndef RT_PROGRAM_BUILD_H
#define RT_PROGRAM_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "device.h"
#include "kernels.h"
#include "opencl.h"
#include "../plan/plan.h"

/* A build: what to build, and from rt_program_build_run on what came of it. A value; what it points to must outlive
 * it. */
typedef struct {
    const rt_plan *plan;
    const rt_device *device;
    const rt_kernels *kernels; /* binaries that are tried before the source */
    uint32_t source;           /* index of the plan's program */
    const char *options;
    cl_program object;   /* of a build that failed too, which has its log; NULL where there is none */
    const char *call;    /* the OpenCL call that failed; NULL: none */
    cl_int code;         /* its code */
    const char *refused; /* name of the code with which the driver refused a binary; NULL: it refused none */
    bool loaded;         /* from a binary */
    uint64_t build_ns;
} rt_program_build;

/* Whether it is the build of these: the plan's hash of the source, and the options. */
bool rt_program_build_is_of(const rt_program_build *build, const char *source_hash, const char *options);

/* Builds, from the binary or from source, and waits. May run in any thread. */
void rt_program_build_run(rt_program_build *build);

/* RT_OK, and the object is the caller's to release. RT_BUILD_FAILED, with a line that names the program and its options
 * and as much of the compiler's log as there is room for, or RT_OPENCL: then the object is released. */
rt_status rt_program_build_end(rt_program_build *build, rt_error *error);

#endif
