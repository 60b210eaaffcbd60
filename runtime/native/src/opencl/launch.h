/* A launch: which kernel, built how, over which sizes; and enqueueing it. Without state. */
#ifndef RT_LAUNCH_H
#define RT_LAUNCH_H

#include <stdint.h>

#include "../../include/farmrt.h"
#include "opencl.h"
#include "../plan/plan.h"
#include "../run/profile.h"

/* How a step is launched. Its strings lie in the plan, the tuned file or the caller's memory. A value. */
typedef struct {
    const char *kernel;
    const char *options;
    uint32_t work_dim;
    uint32_t block; /* of packed weights, 0: as in the plan */
    uint32_t global_size[3];
    uint32_t local_size[3]; /* 0, 0, 0: the driver chooses */
} rt_launch;

/* Where launches go. A value. */
typedef struct {
    const rt_opencl_functions *cl;
    cl_command_queue object;
    rt_profile *profile; /* times them; NULL: nothing does, and the queue need not profile */
} rt_queue;

/* How the plan launches an OpenCL step. */
rt_launch rt_launch_of_plan(const rt_plan *plan, uint32_t step);

/* How many launches become of one that is to be split into so many parts: no more than it has work groups along its
 * longest dimension. */
uint32_t rt_launch_part_count(const rt_launch *launch, uint32_t parts);

/* Enqueues a kernel whose arguments are set, and does not wait. With `parts` above 1 it is split along its longest
 * dimension, by global offset, and each part is flushed. RT_OPENCL names the step; parts before it may have been
 * enqueued. */
rt_status rt_launch_enqueue(const rt_queue *queue, uint32_t step, cl_kernel kernel, const rt_launch *launch,
                            uint32_t parts, rt_error *error);

#endif
