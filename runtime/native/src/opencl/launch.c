/* A split launch is the same kernel with the same arguments over parts of the global size, by offset. Parts are whole
 * work groups, so every local size that suits the launch suits its parts.
 */
#include "launch.h"

#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"

rt_launch rt_launch_of_plan(const rt_plan *plan, uint32_t step) {
    const rt_step_record *record = &plan->steps[step];
    rt_launch launch = {
        .kernel = rt_plan_string(plan, record->kernel),
        .options = rt_plan_string(plan, plan->programs[record->program].options),
        .work_dim = record->work_dim,
    };
    memcpy(launch.global_size, record->global_size, sizeof launch.global_size);
    memcpy(launch.local_size, record->local_size, sizeof launch.local_size);
    return launch;
}

/* Enqueues the part of a launch that starts at an offset (NULL: 0) and has this size, with an event if it is timed.
 * RT_OPENCL names the step. */
static rt_status part_enqueue(const rt_queue *queue, uint32_t step, cl_kernel kernel, const rt_launch *launch,
                              const size_t *offset, const size_t *size, rt_error *error) {
    size_t local[3];
    for (int i = 0; i < 3; i++) local[i] = launch->local_size[i];
    cl_int code =
        queue->cl->EnqueueNDRangeKernel(queue->object, kernel, launch->work_dim, offset, size, local[0] ? local : NULL,
                                        0, NULL, queue->profile ? rt_profile_next(queue->profile, step) : NULL);
    if (code == CL_SUCCESS && queue->profile) return rt_profile_launched(queue->profile, queue->object, step, error);
    return rt_opencl_check(error, "clEnqueueNDRangeKernel", code, (int32_t)step);
}

/* The dimension with the most work groups, along which a launch is split. */
static uint32_t split_dimension(const rt_launch *launch) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < launch->work_dim; i++) {
        uint32_t local = launch->local_size[i] ? launch->local_size[i] : 1;
        uint32_t best_local = launch->local_size[best] ? launch->local_size[best] : 1;
        if (launch->global_size[i] / local > launch->global_size[best] / best_local) best = i;
    }
    return best;
}

/* Work items of each part along the dimension that is split: whole work groups. */
static size_t part_items(const rt_launch *launch, uint32_t dimension, uint32_t parts) {
    size_t local = launch->local_size[dimension] ? launch->local_size[dimension] : 1;
    return (size_t)rt_ceil_div(rt_ceil_div(launch->global_size[dimension], local), parts) * local;
}

uint32_t rt_launch_part_count(const rt_launch *launch, uint32_t parts) {
    uint32_t dimension = split_dimension(launch);
    if (parts <= 1) return 1;
    return (uint32_t)rt_ceil_div(launch->global_size[dimension], part_items(launch, dimension, parts));
}

rt_status rt_launch_enqueue(const rt_queue *queue, uint32_t step, cl_kernel kernel, const rt_launch *launch,
                            uint32_t parts, rt_error *error) {
    size_t offset[3] = {0, 0, 0};
    size_t size[3];
    for (int i = 0; i < 3; i++) size[i] = launch->global_size[i];
    if (parts <= 1) return part_enqueue(queue, step, kernel, launch, NULL, size, error);
    uint32_t dimension = split_dimension(launch);
    size_t whole = size[dimension];
    size_t chunk = part_items(launch, dimension, parts);
    rt_status status = RT_OK;
    for (size_t start = 0; start < whole && status == RT_OK; start += chunk) {
        offset[dimension] = start;
        size[dimension] = chunk < whole - start ? chunk : whole - start;
        status = part_enqueue(queue, step, kernel, launch, offset, size, error);
        queue->cl->Flush(queue->object); /* others may use the device between the parts */
    }
    return status;
}
