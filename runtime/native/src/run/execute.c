/* Everything is enqueued before anything is waited for, so that the device never idles between steps. Only CPU steps
 * break the row: mapping their pools waits for what was enqueued, and unmapping lets the next launches go on.
 *
 * The watchdog is armed anew at each step, since enqueueing may compile, and once for the wait at the end. How long
 * that may take is known from the rounds before; in the first round, when nothing is, the device gets few steps at a
 * time, and more as soon as they end quickly.
 */
#include "execute.h"

#include <stdbool.h>
#include <stddef.h>

#include "../system/allocation.h"
#include "../system/clock.h"
#include "../system/errors.h"
#include "../opencl/launch.h"
#include "../opencl/recording.h"

struct rt_executor {
    rt_executor_parts parts;
    rt_recordings *recordings; /* NULL: none are made */
    uint64_t rounds;
};

enum { SOON_NS = 100000000 };

/* Steps in a row, while they run. */
typedef struct {
    const rt_executor_parts *parts;
    uint32_t together; /* OpenCL steps to wait for at once; 0: all, at the end */
    uint32_t waiting;  /* enqueued since the last wait */
    uint32_t unflushed; /* since the last flush */
    rt_recordings *recordings; /* NULL: each launch is enqueued alone */
    rt_queue queue; /* without a device: of its members only the profile */
    rt_error *error;
} run;

/* Describes a run on the plain queue, or with a profile on the one that profiles, which costs a little on some drivers.
 * It lives no longer than the executor and the profile. */
static run run_of(const rt_executor *executor, rt_profile *profile, rt_error *error) {
    const rt_device *device = executor->parts.device;
    run now = {.parts = &executor->parts, .queue = {.profile = profile}, .error = error};
    if (device == NULL) return now;
    now.queue.cl = rt_device_cl(device);
    now.queue.object = profile ? rt_profile_queue(profile) : device->plain;
    return now;
}

/* Arms the watchdog for what comes next, and tells that all before has ended or was enqueued. */
static void progress_tell(const run *now, int32_t step) {
    rt_watchdog_arm(now->parts->watchdog, step);
    if (now->parts->on_progress != NULL) now->parts->on_progress(now->parts->on_progress_user);
}

/* Waits for the device. */
static rt_status device_wait(const run *now, int32_t step) {
    rt_watchdog_arm(now->parts->watchdog, step);
    return rt_opencl_check(now->error, "clFinish", now->queue.cl->Finish(now->queue.object), RT_NO_STEP);
}

/* Waits after an enqueued step where enough of them wait. */
static rt_status parts_wait(run *now) {
    if (now->together == 0 || ++now->waiting < now->together) return RT_OK;
    uint64_t start_ns = rt_clock_ns();
    rt_status status = device_wait(now, RT_NO_STEP);
    now->together = rt_clock_ns() - start_ns < SOON_NS ? 2 * now->together : 1;
    now->waiting = 0;
    return status;
}

/* Lets the GPU begin with what was enqueued, where enough of it waits. */
static rt_status parts_flush(run *now, uint32_t index) {
    if (++now->unflushed < now->parts->device->flush_every) return RT_OK;
    now->unflushed = 0;
    return rt_opencl_check(now->error, "clFlush", now->queue.cl->Flush(now->queue.object), (int32_t)index);
}

/* Enqueues one step, split if the limit says so; makes its kernel first where that was left to the first run. */
static rt_status opencl_step(run *now, uint32_t index) {
    rt_steps *steps = now->parts->steps;
    rt_status status = rt_steps_prepare(steps, index, now->error);
    if (status != RT_OK) return status;
    status = rt_launch_enqueue(&now->queue, index, rt_steps_kernel(steps, index), rt_steps_launch(steps, index),
                               rt_limit_parts(now->parts->limit, index), now->error);
    if (status == RT_OK) status = parts_flush(now, index);
    return status == RT_OK ? parts_wait(now) : status;
}

/* --- CPU steps, between which no OpenCL step lies --- */

/* Whether a pool is among the arguments of a step, or of any step of a row. */
static bool step_uses_pool(const rt_plan *plan, uint32_t step, uint32_t pool) {
    const rt_step_record *record = &plan->steps[step];
    const rt_arg_record *args = rt_plan_step_args(plan, record);
    for (uint32_t i = 0; i < record->arg_count; i++) {
        if (args[i].kind == RT_ARG_KIND_POOL && args[i].value == pool) return true;
    }
    return false;
}

static bool steps_use_pool(const rt_plan *plan, uint32_t first, uint32_t last, uint32_t pool) {
    for (uint32_t i = first; i <= last; i++) {
        if (step_uses_pool(plan, i, pool)) return true;
    }
    return false;
}

/* Maps a pool; the end of the map is also when the profile's two clocks can be compared. */
static rt_status pool_map(const run *now, uint32_t pool, uint32_t step) {
    cl_event event = NULL;
    rt_profile *profile = now->queue.profile;
    rt_status status =
        rt_storage_map(now->parts->storage, pool, now->queue.object, profile ? &event : NULL, step, now->error);
    if (status == RT_OK && event != NULL) status = rt_profile_align(profile, event, now->error);
    return status;
}

/* Maps the scratch pools that the steps touch; those before one that fails stay mapped. */
static rt_status pools_map(const run *now, uint32_t first, uint32_t last) {
    const rt_plan *plan = now->parts->plan;
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < plan->pool_count && status == RT_OK; i++) {
        bool needed = plan->pools[i].kind == RT_POOL_KIND_SCRATCH && steps_use_pool(plan, first, last, i);
        if (needed) status = pool_map(now, i, first);
    }
    return status;
}

/* Ends every mapping, whatever fails; returns the first failure. */
static rt_status pools_unmap(const run *now, uint32_t step, rt_error *error) {
    const rt_plan *plan = now->parts->plan;
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < plan->pool_count; i++) {
        if (plan->pools[i].kind != RT_POOL_KIND_SCRATCH) continue;
        rt_error *first = status == RT_OK ? error : NULL;
        rt_status unmapped = rt_storage_unmap(now->parts->storage, i, now->queue.object, step, first);
        if (status == RT_OK) status = unmapped;
    }
    return status;
}

/* Runs one CPU step to its end, timed by the clock. */
static rt_status cpu_step(const run *now, uint32_t index) {
    uint64_t start_ns = rt_clock_ns();
    progress_tell(now, (int32_t)index);
    rt_status status = rt_cpu_run(now->parts->cpu, index, now->error);
    if (now->queue.profile != NULL) rt_profile_host_step(now->queue.profile, index, start_ns, rt_clock_ns());
    return status;
}

/* CPU steps in a row, with the pools that they touch mapped around them. */
static rt_status cpu_steps(run *now, uint32_t first, uint32_t last) {
    bool has_device = now->parts->device != NULL;
    rt_status status = has_device ? pools_map(now, first, last) : RT_OK;
    rt_cpu_enter(now->parts->cpu);
    for (uint32_t i = first; i <= last && status == RT_OK; i++) status = cpu_step(now, i);
    rt_cpu_leave(now->parts->cpu);
    if (!has_device) return status;
    rt_status unmapped = pools_unmap(now, last, status == RT_OK ? now->error : NULL);
    return status == RT_OK ? unmapped : status;
}

/* The last of the steps of one kind in a row that begins at `first`. */
static uint32_t row_end(const rt_plan *plan, uint32_t first, uint32_t last) {
    uint32_t end = first;
    while (end < last && plan->steps[end + 1].kind == plan->steps[first].kind) end++;
    return end;
}

/* Enqueues OpenCL steps in a row, by a recording where the driver takes one. */
static rt_status opencl_steps(run *now, uint32_t first, uint32_t last) {
    rt_status status = RT_OK;
    progress_tell(now, (int32_t)first); /* some drivers compile when a launch is enqueued */
    if (now->recordings != NULL && rt_recordings_enqueue(now->recordings, now->parts->steps, first, last)) return RT_OK;
    for (uint32_t i = first; i <= last && status == RT_OK; i++) {
        if (i > first) progress_tell(now, (int32_t)i);
        status = opencl_step(now, i);
    }
    return status;
}

/* --- steps and rounds --- */

/* Enqueues the OpenCL steps and runs the CPU steps, in the plan's order; stops at the first that fails. */
static rt_status steps_enqueue(run *now, uint32_t first, uint32_t last) {
    const rt_plan *plan = now->parts->plan;
    rt_status status = RT_OK;
    for (uint32_t i = first; i <= last && status == RT_OK; i++) {
        uint32_t end = row_end(plan, i, last);
        status = (plan->steps[i].kind == RT_STEP_KIND_OPENCL ? opencl_steps : cpu_steps)(now, i, end);
        i = end;
    }
    return status;
}

/* Steps `first` to `last`; the device is idle when this returns, whatever it returns. */
static rt_status steps_run(run *now, uint32_t first, uint32_t last) {
    rt_status status = steps_enqueue(now, first, last);
    if (now->parts->device != NULL) {
        if (status != RT_OK) now->error = NULL; /* the first failure is told */
        rt_status ended = device_wait(now, first == last ? (int32_t)first : RT_NO_STEP);
        if (status == RT_OK) status = ended;
    }
    rt_watchdog_disarm(now->parts->watchdog);
    return status;
}

rt_status rt_executor_steps(rt_executor *executor, uint32_t first, uint32_t last, rt_error *error) {
    run now = run_of(executor, NULL, error);
    return steps_run(&now, first, last);
}

/* A round, whatever the limit says. The clock is read around everything but the events, which are read afterwards. */
static rt_status round_run(rt_executor *executor, rt_profile *profile, uint64_t *wall_ns, rt_error *error) {
    run now = run_of(executor, profile, error);
    uint32_t step_count = executor->parts.plan->step_count;
    now.together = executor->rounds == 0 && now.parts->watchdog != NULL;
    if (executor->rounds > 0 && profile == NULL) now.recordings = executor->recordings;
    if (profile != NULL) rt_profile_reset(profile);
    uint64_t start_ns = rt_clock_ns();
    rt_status status = step_count > 0 ? steps_run(&now, 0, step_count - 1) : RT_OK;
    *wall_ns = rt_clock_ns() - start_ns;
    if (profile != NULL) { /* events are released after a failure too, which stays the one that is told */
        rt_watchdog_arm(now.parts->watchdog, RT_NO_STEP);
        rt_status collected = rt_profile_collect(profile, status == RT_OK ? error : NULL);
        rt_watchdog_disarm(now.parts->watchdog);
        if (status == RT_OK) status = collected;
    }
    if (status == RT_OK) rt_watchdog_expect(now.parts->watchdog, *wall_ns);
    executor->rounds += status == RT_OK;
    return status;
}

/* A round that is measured for the limit of launches, with a profile of its own where the caller has none. */
static rt_status limiting_round(rt_executor *executor, rt_profile *profile, uint64_t *wall_ns, rt_error *error) {
    const rt_executor_parts *parts = &executor->parts;
    rt_profile *own = NULL;
    if (profile == NULL) {
        rt_status status = rt_profile_create(&own, parts->device, parts->watchdog, parts->plan->step_count, error);
        if (status != RT_OK) return status;
        profile = own;
    }
    rt_status status = round_run(executor, profile, wall_ns, error);
    if (status == RT_OK) rt_limit_apply(parts->limit, rt_profile_duration_ns(profile));
    rt_profile_destroy(own);
    return status;
}

rt_status rt_executor_round(rt_executor *executor, rt_profile *profile, uint64_t *wall_ns, rt_error *error) {
    bool limiting = rt_limit_is_pending(executor->parts.limit);
    return (limiting ? limiting_round : round_run)(executor, profile, wall_ns, error);
}

uint64_t rt_executor_rounds(const rt_executor *executor) { return executor->rounds; }

rt_status rt_executor_create(rt_executor **executor, const rt_executor_parts *parts, rt_error *error) {
    rt_executor *made = *executor = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "the rounds");
    made->parts = *parts;
    if (rt_limit_is_set(parts->limit)) return RT_OK; /* launches that are split let others in between */
    return rt_recordings_create(&made->recordings, parts->device, parts->plan->step_count, error);
}

void rt_executor_destroy(rt_executor *executor) {
    if (executor == NULL) return;
    rt_recordings_destroy(executor->recordings);
    rt_memory_free(executor);
}
