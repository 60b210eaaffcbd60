/* Kernels of steps: which launch, with which arguments. */
#ifndef RT_LAUNCH_H
#define RT_LAUNCH_H

#include "engine.h"

/* How the plan launches an OpenCL step. */
rt_launch rt_launch_of_plan(const rt_engine *engine, uint32_t step);
/* Takes the tuned launch of every step that has one. */
void rt_launches_choose(rt_engine *engine);

/* A kernel for a step with this launch, its arguments set; checks the kernel's own work-group limit. */
rt_status rt_launch_create(rt_engine *engine, uint32_t step, const rt_launch *launch, cl_kernel *kernel,
                           uint64_t *build_ns, rt_error *error);

/* Makes the kernel of a step if it has none yet; a tuned launch that the device refuses gives way to the plan's. */
rt_status rt_step_prepare(rt_engine *engine, uint32_t step, rt_error *error);

uint64_t rt_kernel_number(const rt_engine *engine, cl_kernel kernel, cl_uint property);

#endif
