/* The plan's OpenCL steps: which launch each has, and the kernel that was made for it.
 *
 * State: an rt_steps, with the launch and kernel of each step. What it makes kernels from (programs, storage, repacked
 * weights, tuned parameters) belongs to those parts and must outlive it. One thread at a time.
 */
#ifndef RT_STEPS_H
#define RT_STEPS_H

#include <stdint.h>

#include "../../include/farmrt.h"
#include "device.h"
#include "launch.h"
#include "opencl.h"
#include "../plan/plan.h"
#include "programs.h"
#include "../plan/repack.h"
#include "../plan/storage.h"
#include "tuned.h"

typedef struct rt_steps rt_steps;

/* What kernels are made from. A value. */
typedef struct {
    const rt_plan *plan;
    const rt_device *device; /* NULL where there are no OpenCL steps */
    rt_programs *programs;
    const rt_storage *storage;
    rt_repack *repack;
    rt_tuned *tuned;
} rt_step_parts;

/* Chooses the launch of every step, the tuned one where there is one, and makes no kernel yet. For rt_steps_destroy.
 * RT_NO_MEMORY; `*steps` is NULL then. */
rt_status rt_steps_create(rt_steps **steps, const rt_step_parts *parts, rt_error *error);

/* Releases the kernels; nothing may be enqueued. NULL is ignored. */
void rt_steps_destroy(rt_steps *steps);

/* Makes the kernel of a step if it has none yet; a CPU step needs none. A tuned launch that the device refuses gives
 * way to the plan's, and the tuned parameters are told; the plan's work group is made smaller where the kernel's limit
 * is lower, half by half, and left to the driver at last. RT_BUILD_FAILED, RT_UNSUPPORTED, RT_OPENCL or RT_NO_MEMORY,
 * with the step. */
rt_status rt_steps_prepare(rt_steps *steps, uint32_t step, rt_error *error);

/* How many prepared steps have a smaller work group than the plan's, since the device allows their kernels no more. */
uint32_t rt_steps_smaller_groups(const rt_steps *steps);

/* How a step is launched, and its kernel, which is NULL until it is prepared. Both stay the steps', and a step keeps
 * its launch once it is prepared. */
const rt_launch *rt_steps_launch(const rt_steps *steps, uint32_t step);
cl_kernel rt_steps_kernel(const rt_steps *steps, uint32_t step);

/* Another kernel for a step, with another launch; its arguments are set. It is the caller's to release. A work group
 * beyond the kernel's own limit is made smaller where it is to `fit`, as rt_steps_prepare does, else RT_UNSUPPORTED;
 * fails as rt_steps_prepare does. `times`: see rt_programs_get. */
rt_status rt_steps_make_kernel(rt_steps *steps, uint32_t step, rt_launch *launch, bool fit, cl_kernel *kernel,
                               rt_build_times *times, rt_error *error);

#endif
