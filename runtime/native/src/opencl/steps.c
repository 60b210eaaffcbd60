/* A kernel keeps its arguments from one launch to the next, so they are set once, when it is made: a round only
 * enqueues. That is also why a trial makes a kernel of its own instead of changing the step's.
 */
#include "steps.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"
#include "../system/log.h"

/* One step. */
typedef struct {
    rt_launch launch;
    cl_kernel kernel; /* NULL until it is prepared */
    bool tuned, smaller; /* smaller: its work group is not the plan's */
} step_state;

struct rt_steps {
    rt_step_parts parts;
    step_state *table; /* one a step; those of CPU steps stay zero */
};

/* The tuned launch of each step's key, else the plan's. Steps with equal keys share an entry. */
static void launches_choose(rt_steps *steps) {
    const rt_plan *plan = steps->parts.plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind != RT_STEP_KIND_OPENCL) continue;
        step_state *step = &steps->table[i];
        const char *key = rt_plan_string(plan, plan->steps[i].tuning_key);
        step->tuned = key[0] != '\0' && rt_tuned_take(steps->parts.tuned, key, &step->launch);
        if (!step->tuned) step->launch = rt_launch_of_plan(plan, i);
        rt_log(RT_LOG_DEBUG, "step %u: %s, %s launch", i, step->launch.kernel, step->tuned ? "tuned" : "default");
    }
}

rt_status rt_steps_create(rt_steps **steps, const rt_step_parts *parts, rt_error *error) {
    rt_steps *made = *steps = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "the plan's steps");
    made->parts = *parts;
    made->table = rt_memory_allocate(parts->plan->step_count, sizeof *made->table);
    if (made->table != NULL) return launches_choose(made), RT_OK;
    rt_steps_destroy(made);
    *steps = NULL;
    return rt_error_no_memory(error, "the plan's steps");
}

void rt_steps_destroy(rt_steps *steps) {
    if (steps == NULL) return;
    for (uint32_t i = 0; steps->table != NULL && i < steps->parts.plan->step_count; i++) {
        cl_kernel kernel = steps->table[i].kernel;
        if (kernel != NULL) rt_device_cl(steps->parts.device)->ReleaseKernel(kernel);
    }
    rt_memory_free(steps->table);
    rt_memory_free(steps);
}

/* --- a kernel and its arguments --- */

/* Sets one argument as the plan has it: a memory object, a number's four bytes, or a size of local memory. */
static rt_status argument_set(const rt_step_parts *parts, uint32_t step, cl_kernel kernel, uint32_t index,
                              const rt_arg_record *arg, rt_error *error) {
    cl_mem object = NULL;
    const void *value = &arg->value;
    size_t size = sizeof arg->value;
    if (arg->kind == RT_ARG_KIND_POOL || arg->kind == RT_ARG_KIND_IMAGE) {
        object = (arg->kind == RT_ARG_KIND_POOL ? rt_storage_pool : rt_storage_image)(parts->storage, arg->value);
        value = &object;
        size = sizeof object;
    } else if (arg->kind == RT_ARG_KIND_LOCAL) {
        value = NULL;
        size = arg->value;
    }
    cl_int code = rt_device_cl(parts->device)->SetKernelArg(kernel, index, size, value);
    return rt_opencl_check(error, "clSetKernelArg", code, (int32_t)step);
}

/* Replaces the two arguments of packed weights, pool and offset, by the same weights in another block size. */
static rt_status weights_set(const rt_step_parts *parts, uint32_t pack, uint32_t block, cl_kernel kernel,
                             rt_error *error) {
    cl_mem object;
    const int32_t offset = 0;
    const rt_opencl_functions *cl = rt_device_cl(parts->device);
    const rt_pack_record *record = &parts->plan->packs[pack];
    rt_status status = rt_repack_on_device(parts->repack, pack, block, &object, error);
    if (status != RT_OK) return status;
    cl_int code = cl->SetKernelArg(kernel, record->arg, sizeof object, &object);
    if (code == CL_SUCCESS) code = cl->SetKernelArg(kernel, record->arg + 1, sizeof offset, &offset);
    return rt_opencl_check(error, "clSetKernelArg", code, (int32_t)record->step);
}

/* Sets all arguments as the plan has them, then those of weights that the launch wants in other blocks (`block` 0: in
 * none). RT_OPENCL or RT_NO_MEMORY. */
static rt_status arguments_set(const rt_step_parts *parts, uint32_t step, uint32_t block, cl_kernel kernel,
                               rt_error *error) {
    const rt_plan *plan = parts->plan;
    const rt_step_record *record = &plan->steps[step];
    const rt_arg_record *args = rt_plan_step_args(plan, record);
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < record->arg_count && status == RT_OK; i++) {
        status = argument_set(parts, step, kernel, i, &args[i], error);
    }
    for (uint32_t i = 0; i < plan->pack_count && status == RT_OK; i++) {
        bool other = block != 0 && plan->packs[i].step == step && plan->packs[i].block != block;
        if (other) status = weights_set(parts, i, block, kernel, error);
    }
    return status;
}

/* Work items of a group; 0 where the driver chooses. */
static uint64_t group_items(const rt_launch *launch) {
    uint64_t items = 1;
    for (uint32_t i = 0; i < launch->work_dim; i++) items = rt_product(items, launch->local_size[i]);
    return items;
}

/* Makes a work group half as large, along the longest side that has a half; leaves it to the driver where none has. */
static void group_halve(rt_launch *launch) {
    uint32_t *longest = NULL;
    for (uint32_t i = 0; i < launch->work_dim; i++) {
        uint32_t *side = &launch->local_size[i];
        if (*side % 2 == 0 && (longest == NULL || *side > *longest)) longest = side;
    }
    if (longest != NULL) {
        *longest /= 2;
    } else {
        memset(launch->local_size, 0, sizeof launch->local_size);
    }
}

/* Makes a launch's work group as small as its kernel needs it: a kernel that uses global ids only is right in any, and
 * one whose first dimension is one group in a smaller one, as long as it stays one. */
static void group_fit(const rt_steps *steps, uint32_t step, rt_launch *launch, cl_kernel kernel) {
    uint64_t planned = group_items(launch);
    uint64_t limit = rt_device_kernel_number(steps->parts.device, kernel, CL_KERNEL_WORK_GROUP_SIZE);
    uint32_t flags = steps->parts.plan->steps[step].flags;
    bool one = (flags & RT_STEP_FLAG_ONE_GROUP) != 0;
    if (limit == 0 || planned <= limit || !(flags & (RT_STEP_FLAG_SPLITTABLE | RT_STEP_FLAG_ONE_GROUP))) return;
    while (group_items(launch) > limit && (!one || launch->local_size[0] > 1)) {
        if (one) {
            launch->global_size[0] = launch->local_size[0] /= 2;
        } else {
            group_halve(launch);
        }
    }
    rt_log(RT_LOG_INFO, "step %u: %llu work items a group in place of %llu, the kernel's limit is %llu", step,
           (unsigned long long)group_items(launch), (unsigned long long)planned, (unsigned long long)limit);
}

/* RT_UNSUPPORTED, with the step, for a work group that is too large for the compiled kernel, which may allow less than
 * the device does; some drivers crash where others refuse. */
static rt_status local_size_check(const rt_device *device, uint32_t step, const rt_launch *launch, cl_kernel kernel,
                                  rt_error *error) {
    uint64_t limit = rt_device_kernel_number(device, kernel, CL_KERNEL_WORK_GROUP_SIZE);
    uint64_t items = group_items(launch);
    if (limit == 0 || items <= limit) return RT_OK;
    rt_error_set(error, RT_UNSUPPORTED, "a work group of %llu items; the kernel's limit is %llu",
                 (unsigned long long)items, (unsigned long long)limit);
    rt_error_set_step(error, step);
    return RT_UNSUPPORTED;
}

/* A kernel with its arguments, whatever the work group. */
static rt_status kernel_create(rt_steps *steps, uint32_t step, const rt_launch *launch, cl_kernel *kernel,
                               rt_build_times *times, rt_error *error) {
    const rt_step_parts *parts = &steps->parts;
    const rt_opencl_functions *cl = rt_device_cl(parts->device);
    cl_program program;
    cl_int code;
    *kernel = NULL;
    rt_status status =
        rt_programs_get(parts->programs, parts->plan->steps[step].program, launch->options, &program, times, error);
    if (status != RT_OK) {
        rt_error_set_step(error, step);
        return status;
    }
    *kernel = cl->CreateKernel(program, launch->kernel, &code);
    status = rt_opencl_check(error, "clCreateKernel", code, (int32_t)step);
    if (status == RT_OK) return arguments_set(parts, step, launch->block, *kernel, error);
    *kernel = NULL;
    return status;
}

/* Releases a kernel that is not used after all. */
static void kernel_release(const rt_steps *steps, cl_kernel *kernel) {
    if (*kernel != NULL) rt_device_cl(steps->parts.device)->ReleaseKernel(*kernel);
    *kernel = NULL;
}

rt_status rt_steps_make_kernel(rt_steps *steps, uint32_t step, rt_launch *launch, bool fit, cl_kernel *kernel,
                               rt_build_times *times, rt_error *error) {
    rt_status status = kernel_create(steps, step, launch, kernel, times, error);
    if (status == RT_OK && fit) group_fit(steps, step, launch, *kernel);
    if (status == RT_OK) status = local_size_check(steps->parts.device, step, launch, *kernel, error);
    if (status != RT_OK) kernel_release(steps, kernel);
    return status;
}

/* --- the step's own launch --- */

/* Goes back to the plan's launch for good, and tells the tuned parameters why. */
static void tuned_give_up(rt_steps *steps, uint32_t index, const rt_error *why) {
    step_state *step = &steps->table[index];
    step->tuned = false;
    step->launch = rt_launch_of_plan(steps->parts.plan, index);
    rt_tuned_give_back(steps->parts.tuned, index, why->message);
}

rt_status rt_steps_prepare(rt_steps *steps, uint32_t index, rt_error *error) {
    step_state *step = &steps->table[index];
    rt_build_times times;
    rt_error refused;
    if (step->kernel != NULL || steps->parts.plan->steps[index].kind != RT_STEP_KIND_OPENCL) return RT_OK;
    if (step->tuned) { /* a refusal is no error here: what was tuned on another unit may be too much for this one */
        rt_status status = rt_steps_make_kernel(steps, index, &step->launch, false, &step->kernel, &times, &refused);
        if (status == RT_OK) return RT_OK;
        tuned_give_up(steps, index, &refused);
    }
    uint64_t planned = group_items(&step->launch);
    rt_status status = rt_steps_make_kernel(steps, index, &step->launch, true, &step->kernel, &times, error);
    step->smaller = group_items(&step->launch) != planned;
    return status;
}

uint32_t rt_steps_smaller_groups(const rt_steps *steps) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < steps->parts.plan->step_count; i++) count += steps->table[i].smaller;
    return count;
}

const rt_launch *rt_steps_launch(const rt_steps *steps, uint32_t step) { return &steps->table[step].launch; }

cl_kernel rt_steps_kernel(const rt_steps *steps, uint32_t step) { return steps->table[step].kernel; }
