/* All launches of the repetitions are enqueued before anything is waited for, each with an event: a time counts from
 * the end of the launch before it. Pairs change their order each time, since the second one finds what the first one
 * left in the caches.
 */
#include "trial_times.h"

#include <stdbool.h>
#include <stddef.h>

#include "../system/allocation.h"
#include "../system/clock.h"
#include "../system/errors.h"
#include "../run/profile.h"

enum { RAMP_BATCH = 4, AGREEING = 3, TOLERANCE_PERCENT = 5 };

static const uint64_t ns_per_ms = 1000000;

struct rt_trial_times {
    const rt_parts *parts;
    const rt_trial *trial;
    const rt_launch *launch;
    cl_kernel kernel;
    rt_profile *profile;
    bool pairs; /* as asked for, unless the step's own launch cannot be made */
    bool steady;
    bool beside_build; /* a program was being built when the repetitions began */
    uint32_t ramp;             /* launches of the ramp */
    uint32_t *event, *own_event; /* index of the event of each repetition */
    uint64_t *ns, *own_ns;       /* one a repetition */
    uint64_t wall_ns;
};

void rt_trial_times_destroy(rt_trial_times *times) {
    if (times == NULL) return;
    rt_profile_destroy(times->profile);
    rt_memory_free(times->event);
    rt_memory_free(times->own_event);
    rt_memory_free(times->ns);
    rt_memory_free(times->own_ns);
    rt_memory_free(times);
}

rt_status rt_trial_times_create(rt_trial_times **times, const rt_parts *parts, const rt_trial *trial,
                                const rt_launch *launch, cl_kernel kernel, rt_error *error) {
    rt_trial_times *made = *times = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "the times");
    *made = (rt_trial_times){.parts = parts, .trial = trial, .launch = launch, .kernel = kernel, .pairs = trial->pairs};
    made->event = rt_memory_allocate(trial->reps, sizeof *made->event);
    made->own_event = rt_memory_allocate(trial->reps, sizeof *made->own_event);
    made->ns = rt_memory_allocate(trial->reps, sizeof *made->ns);
    made->own_ns = rt_memory_allocate(trial->reps, sizeof *made->own_ns);
    bool whole = made->event != NULL && made->own_event != NULL && made->ns != NULL && made->own_ns != NULL;
    rt_status status = rt_error_no_memory(error, "the times");
    if (whole) {
        status = rt_profile_create(&made->profile, parts->device, parts->watchdog, parts->plan->step_count, error);
    }
    if (status == RT_OK) return RT_OK;
    rt_trial_times_destroy(made);
    *times = NULL;
    return status;
}

/* --- launches --- */

/* Enqueues what is tried. */
static rt_status tried_enqueue(const rt_trial_times *times, const rt_queue *queue, rt_error *error) {
    return rt_launch_enqueue(queue, times->trial->step, times->kernel, times->launch, 1, error);
}

/* Enqueues a step's own launch, whose kernel was prepared. */
static rt_status own_enqueue(const rt_trial_times *times, const rt_queue *queue, uint32_t step, rt_error *error) {
    const rt_steps *steps = times->parts->steps;
    return rt_launch_enqueue(queue, step, rt_steps_kernel(steps, step), rt_steps_launch(steps, step), 1, error);
}

/* Enqueues the steps before, then the launch that is timed; tells the index of its event. */
static rt_status timed_enqueue(const rt_trial_times *times, const rt_queue *queue, bool own, uint32_t *event,
                               rt_error *error) {
    const rt_trial *trial = times->trial;
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < trial->before_count && status == RT_OK; i++) {
        status = own_enqueue(times, queue, trial->before[i], error);
    }
    *event = rt_profile_event_count(times->profile);
    if (status != RT_OK) return status;
    return own ? own_enqueue(times, queue, trial->step, error) : tried_enqueue(times, queue, error);
}

/* Waits until the device is idle, and ends the watch over what was enqueued; the first failure is told. */
static rt_status device_wait(const rt_trial_times *times, const rt_queue *queue, rt_status status, rt_error *error) {
    cl_int code = queue->cl->Finish(queue->object);
    rt_watchdog_disarm(times->parts->watchdog);
    return status == RT_OK ? rt_opencl_check(error, "clFinish", code, (int32_t)times->trial->step) : status;
}

/* Launches what is tried so often, and waits. */
static rt_status launches_run(const rt_trial_times *times, uint32_t count, rt_profile *profile, rt_error *error) {
    const rt_device *device = times->parts->device;
    const rt_queue queue = {rt_device_cl(device), profile ? rt_profile_queue(profile) : device->plain, profile};
    rt_status status = RT_OK;
    rt_watchdog_arm(times->parts->watchdog, (int32_t)times->trial->step);
    for (uint32_t i = 0; i < count && status == RT_OK; i++) status = tried_enqueue(times, &queue, error);
    return device_wait(times, &queue, status, error);
}

rt_status rt_trial_times_warm(rt_trial_times *times, uint32_t count, rt_error *error) {
    return launches_run(times, count, NULL, error);
}

/* --- the ramp --- */

/* Whether the last launches of the ramp took the same time, within the tolerance. */
static rt_status steadiness_read(rt_trial_times *times, rt_error *error) {
    uint32_t count = rt_profile_event_count(times->profile);
    uint64_t least_ns = UINT64_MAX, most_ns = 0, ns;
    if (count < AGREEING) return rt_error_no_memory(error, "the events");
    for (uint32_t i = count - AGREEING; i < count; i++) {
        rt_status status = rt_profile_event_ns(times->profile, i, &ns, error);
        if (status != RT_OK) return status;
        if (ns < least_ns) least_ns = ns;
        if (ns > most_ns) most_ns = ns;
    }
    times->steady = (most_ns - least_ns) * 100 <= least_ns * TOLERANCE_PERCENT;
    return RT_OK;
}

/* Launches until the times are steady, or their time is up. */
static rt_status ramp_run(rt_trial_times *times, rt_error *error) {
    uint64_t end_ns = rt_clock_ns() + times->trial->ramp_ms * ns_per_ms;
    rt_status status = RT_OK;
    while (status == RT_OK && !times->steady && rt_clock_ns() < end_ns) {
        rt_profile_reset(times->profile);
        status = launches_run(times, RAMP_BATCH, times->profile, error);
        if (status == RT_OK) status = steadiness_read(times, error);
        times->ramp += RAMP_BATCH;
    }
    return status;
}

/* --- the repetitions --- */

/* Enqueues all repetitions and waits. */
static rt_status reps_run(rt_trial_times *times, rt_error *error) {
    const rt_device *device = times->parts->device;
    const rt_queue queue = {rt_device_cl(device), rt_profile_queue(times->profile), times->profile};
    rt_status status = RT_OK;
    rt_profile_reset(times->profile);
    rt_watchdog_arm(times->parts->watchdog, (int32_t)times->trial->step);
    for (uint32_t i = 0; i < times->trial->reps && status == RT_OK; i++) {
        bool own_last = i % 2 != 0;
        if (times->pairs && !own_last) status = timed_enqueue(times, &queue, true, &times->own_event[i], error);
        if (status == RT_OK) status = timed_enqueue(times, &queue, false, &times->event[i], error);
        if (times->pairs && own_last && status == RT_OK) {
            status = timed_enqueue(times, &queue, true, &times->own_event[i], error);
        }
    }
    return device_wait(times, &queue, status, error);
}

/* RT_NO_MEMORY where a launch has no event: the indices behind it are wrong then. */
static rt_status events_check(const rt_trial_times *times, rt_error *error) {
    uint64_t of_rep = (times->trial->before_count + 1ull) * (times->pairs ? 2 : 1);
    bool whole = rt_profile_event_count(times->profile) == times->trial->reps * of_rep;
    return whole ? RT_OK : rt_error_no_memory(error, "the events");
}

/* Reads the times that these events tell. */
static rt_status events_read(const rt_trial_times *times, const uint32_t *event, uint64_t *ns, rt_error *error) {
    for (uint32_t i = 0; i < times->trial->reps; i++) {
        rt_status status = rt_profile_event_ns(times->profile, event[i], &ns[i], error);
        if (status != RT_OK) return status;
    }
    return RT_OK;
}

rt_status rt_trial_times_take(rt_trial_times *times, rt_error *error) {
    rt_error refused;
    if (times->pairs && rt_steps_prepare(times->parts->steps, times->trial->step, &refused) != RT_OK) {
        times->pairs = false;
    }
    rt_status status = ramp_run(times, error);
    if (status != RT_OK) return status;
    times->beside_build = rt_programs_is_building(times->parts->programs);
    uint64_t start_ns = rt_clock_ns();
    status = reps_run(times, error);
    times->wall_ns = rt_clock_ns() - start_ns;
    if (status == RT_OK) status = events_check(times, error);
    if (status == RT_OK) status = events_read(times, times->event, times->ns, error);
    if (status == RT_OK && times->pairs) status = events_read(times, times->own_event, times->own_ns, error);
    return status;
}

/* --- the answer --- */

static void array_write(rt_json *json, const char *key, const uint64_t *ns, uint32_t count) {
    rt_json_array_begin(json, key);
    for (uint32_t i = 0; i < count; i++) rt_json_unsigned(json, NULL, ns[i]);
    rt_json_array_end(json);
}

void rt_trial_times_write(const rt_trial_times *times, rt_json *json) {
    array_write(json, "ns", times->ns, times->trial->reps);
    if (times->pairs) array_write(json, "own_ns", times->own_ns, times->trial->reps);
    rt_json_unsigned(json, "wall_ns", times->wall_ns);
    rt_profile_clock_write(times->profile, json);
    rt_json_bool(json, "beside_build", times->beside_build);
    if (times->trial->ramp_ms == 0) return;
    rt_json_unsigned(json, "ramp", times->ramp);
    rt_json_bool(json, "steady", times->steady);
}
