/* Output first, then time: the launch is run once over a poisoned output and compared, and only then repeated and
 * timed (trial_times). A trial that is wrong is answered all the same; whoever asked decides what error is too large.
 */
#include "trial.h"

#include <stddef.h>
#include <string.h>

#include "../system/errors.h"
#include "launch.h"
#include "trial_check.h"

enum { MAX_REPS = 1000000, MAX_BLOCK = 1024, MAX_RAMP_MS = 10000 };

void rt_trial_take(rt_trial *trial, rt_command *command) {
    memset(trial, 0, sizeof *trial);
    rt_command_required(command, "step");
    trial->step = rt_command_number(command, "step", 0, UINT32_MAX - 1);
    trial->reps = rt_command_number(command, "reps", 1, MAX_REPS);
    trial->warmup = rt_command_number(command, "warmup", 0, MAX_REPS);
    trial->kernel = rt_command_text(command, "kernel");
    trial->options = rt_command_text(command, "options");
    trial->global_rank = rt_command_numbers(command, "global", trial->global_size, 3);
    trial->local_rank = rt_command_numbers(command, "local", trial->local_size, 3);
    trial->block = rt_command_number(command, "block", 0, MAX_BLOCK);
    trial->check = rt_command_number(command, "check", 0, 1) != 0;
    trial->before_count = rt_command_numbers(command, "before", trial->before, RT_TRIAL_BEFORE);
    trial->ramp_ms = rt_command_number(command, "ramp_ms", 0, MAX_RAMP_MS);
    trial->pairs = rt_command_number(command, "pairs", 0, 1) != 0;
    trial->ahead_step = rt_command_number(command, "ahead_step", RT_TRIAL_NO_STEP, RT_TRIAL_NO_STEP - 1);
    trial->ahead_options = rt_command_text(command, "ahead_options");
    if (trial->ahead_options != NULL && trial->ahead_step == RT_TRIAL_NO_STEP) trial->ahead_step = trial->step;
}

/* RT_BAD_COMMAND with the step. */
static rt_status bad_trial(const rt_trial *trial, const char *problem, rt_error *error) {
    rt_error_set(error, RT_BAD_COMMAND, "trial: %s", problem);
    rt_error_set_step(error, trial->step);
    return RT_BAD_COMMAND;
}

/* RT_BAD_COMMAND for sizes that OpenCL would refuse with a message that tells less. */
static rt_status sizes_check(const rt_trial *trial, const rt_launch *launch, rt_error *error) {
    for (uint32_t i = 0; i < launch->work_dim; i++) {
        uint32_t local = launch->local_size[i];
        if (launch->global_size[i] == 0) return bad_trial(trial, "a global size of 0", error);
        if ((local == 0) != (launch->local_size[0] == 0)) return bad_trial(trial, "some of local are 0", error);
        if (local != 0 && launch->global_size[i] % local != 0) {
            return bad_trial(trial, "global is not a multiple of local", error);
        }
    }
    return RT_OK;
}

/* Whether the plan's own launch is tried, which is made to fit the device as in a round. */
static bool is_plans_own(const rt_trial *trial) {
    return trial->kernel == NULL && trial->options == NULL && trial->global_rank == 0 && trial->local_rank == 0 &&
           trial->block == 0;
}

/* Makes the plan's launch with what the trial changes; its texts lie in the plan and the command's line. RT_BAD_COMMAND
 * for a step without a launch, and for sizes that do not go together. */
static rt_status launch_make(const rt_plan *plan, const rt_trial *trial, rt_launch *launch, rt_error *error) {
    if (trial->step >= plan->step_count) return bad_trial(trial, "the plan has no such step", error);
    if (plan->steps[trial->step].kind != RT_STEP_KIND_OPENCL) return bad_trial(trial, "a CPU step", error);
    *launch = rt_launch_of_plan(plan, trial->step);
    if (trial->kernel != NULL) launch->kernel = trial->kernel;
    if (trial->options != NULL) launch->options = trial->options;
    launch->block = trial->block;
    if (trial->global_rank > 0) {
        launch->work_dim = trial->global_rank;
        memcpy(launch->global_size, trial->global_size, sizeof launch->global_size);
        memset(launch->local_size, 0, sizeof launch->local_size);
    }
    if (trial->local_rank > 0) {
        if (trial->local_rank < launch->work_dim) return bad_trial(trial, "local has fewer numbers than global", error);
        memcpy(launch->local_size, trial->local_size, sizeof launch->local_size);
    }
    return sizes_check(trial, launch, error);
}

/* Whether the plan has such a step, with a launch. */
static bool has_launch(const rt_plan *plan, uint32_t step) {
    return step < plan->step_count && plan->steps[step].kind == RT_STEP_KIND_OPENCL;
}

/* RT_BAD_COMMAND for a program to build ahead of a step without one. */
static rt_status ahead_check(const rt_plan *plan, const rt_trial *trial, rt_error *error) {
    if (trial->ahead_step == RT_TRIAL_NO_STEP || has_launch(plan, trial->ahead_step)) return RT_OK;
    return bad_trial(trial, "ahead_step names a step that the plan has not, or that runs on the CPU", error);
}

/* Begins to build what will be tried next, beside the measurement. */
static void ahead_start(const rt_parts *parts, const rt_trial *trial) {
    if (trial->ahead_step == RT_TRIAL_NO_STEP) return;
    rt_launch launch = rt_launch_of_plan(parts->plan, trial->ahead_step);
    const char *options = trial->ahead_options != NULL ? trial->ahead_options : launch.options;
    rt_programs_build_ahead(parts->programs, parts->plan->steps[trial->ahead_step].program, options);
}

/* RT_BAD_COMMAND for a step before the timed launches that has no launch; else makes their kernels. */
static rt_status before_prepare(const rt_parts *parts, const rt_trial *trial, rt_error *error) {
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < trial->before_count && status == RT_OK; i++) {
        uint32_t step = trial->before[i];
        if (!has_launch(parts->plan, step)) {
            return bad_trial(trial, "before names a step that the plan has not, or that runs on the CPU", error);
        }
        status = rt_steps_prepare(parts->steps, step, error);
    }
    return status;
}

/* A trial while it runs. */
typedef struct {
    const rt_parts *parts;
    const rt_trial *trial;
    const rt_expect_record *expect; /* NULL: nothing to compare with */
    rt_launch launch;
    cl_kernel kernel;
    rt_trial_times *times;
    rt_build_times build;
    rt_error *error;
} bench;

/* One launch over a poisoned output, and the comparison. */
static rt_status output_check(const bench *now, rt_difference *difference) {
    rt_status status = rt_output_poison(now->parts, now->expect, now->error);
    if (status == RT_OK) status = rt_trial_times_warm(now->times, 1, now->error);
    if (status == RT_OK) status = rt_output_compare(now->parts, now->expect, difference, now->error);
    return status;
}

/* Writes the output as the plan's own launch does, for the steps that read it. Nobody is told where that fails: the
 * next trial will be. */
static void output_restore(const bench *now) {
    rt_executor_steps(now->parts->executor, now->expect->step, now->expect->check_step, NULL);
}

/* The answer's members; the comparison's only where there was one. */
static void answer_write(const bench *now, const rt_difference *difference, rt_json *json) {
    const rt_device *device = now->parts->device;
    rt_json_ms(json, "build_ms", now->build.build_ns);
    rt_json_ms(json, "hidden_ms", now->build.hidden_ns);
    rt_json_bool(json, "building", rt_programs_is_building(now->parts->programs));
    rt_trial_times_write(now->times, json);
    if (now->expect != NULL) {
        rt_json_float(json, "max_abs_error", difference->max_abs_error);
        rt_json_float(json, "max_abs_expected", difference->max_abs_expected);
        rt_json_unsigned(json, "nan_count", difference->nan_count);
    }
    rt_json_unsigned(json, "max_work_group_size",
                     rt_device_kernel_number(device, now->kernel, CL_KERNEL_WORK_GROUP_SIZE));
    rt_json_unsigned(json, "preferred_multiple",
                     rt_device_kernel_number(device, now->kernel, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE));
}

/* Checks before it times: what is wrong must not count as fast. */
static rt_status bench_run(bench *now, rt_json *json) {
    rt_difference difference = {0};
    rt_status status = RT_OK;
    if (now->expect != NULL) status = output_check(now, &difference);
    if (status == RT_OK) status = rt_trial_times_warm(now->times, now->trial->warmup, now->error);
    if (status == RT_OK) status = rt_trial_times_take(now->times, now->error);
    if (status == RT_OK) answer_write(now, &difference, json);
    if (now->expect != NULL && (status != RT_OK || rt_difference_spoils(&difference))) output_restore(now);
    return status;
}

rt_status rt_trial_run(const rt_parts *parts, const rt_trial *trial, rt_json *json, rt_error *error) {
    bench now = {.parts = parts, .trial = trial, .error = error};
    rt_status status = launch_make(parts->plan, trial, &now.launch, error);
    if (status != RT_OK) return status;
    status = ahead_check(parts->plan, trial, error);
    if (status != RT_OK) return status;
    const rt_opencl_functions *cl = rt_device_cl(parts->device);
    status = before_prepare(parts, trial, error);
    if (status != RT_OK) return status;
    now.expect = trial->check ? rt_expectation_find(parts->plan, trial->step) : NULL;
    status = rt_steps_make_kernel(parts->steps, trial->step, &now.launch, is_plans_own(trial), &now.kernel, &now.build,
                                  error);
    if (status != RT_OK) return status;
    ahead_start(parts, trial);
    status = rt_trial_times_create(&now.times, parts, trial, &now.launch, now.kernel, error);
    if (status == RT_OK) status = bench_run(&now, json);
    rt_trial_times_destroy(now.times);
    cl->ReleaseKernel(now.kernel);
    return status;
}
