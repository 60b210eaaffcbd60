/* Two clocks: the device's, which events tell, and the host's, which times CPU steps. Before CPU steps a pool is
 * mapped, and the end of that map is an instant that both know: it gives the offset from one clock to the other. In a
 * plan without OpenCL steps the offset stays 0, and only the host's clock counts; so it does where the device's stands
 * (event_clock.h): then each launch is waited for.
 */
#include "profile.h"

#include <stdbool.h>
#include <stddef.h>

#include "../system/allocation.h"
#include "../system/clock.h"
#include "../system/errors.h"

static const uint64_t not_started = UINT64_MAX;

/* The event of one launch; NULL where the launch was refused. With the times that the host took, 0 where it took none. */
typedef struct {
    cl_event event;
    uint32_t step;
    uint64_t start_ns, end_ns;
} timed_event;

struct rt_profile {
    const rt_opencl_functions *cl;
    cl_command_queue queue;
    bool by_host, hangs;
    timed_event *events;
    uint32_t event_count, event_capacity;
    uint32_t step_count;
    /* one a step; on the device's clock until they are collected */
    uint64_t *start_ns, *duration_ns, *end_ns;
    uint64_t host_offset_ns; /* host clock minus the device's clock, modulo 2^64 */
};

/* Releases the events that are left, and keeps their memory for the next round. */
static void events_release(rt_profile *profile) {
    for (uint32_t i = 0; i < profile->event_count; i++) {
        if (profile->events[i].event != NULL) profile->cl->ReleaseEvent(profile->events[i].event);
    }
    profile->event_count = 0;
}

void rt_profile_destroy(rt_profile *profile) {
    if (profile == NULL) return;
    events_release(profile);
    rt_memory_free(profile->events);
    rt_memory_free(profile->start_ns);
    rt_memory_free(profile->duration_ns);
    rt_memory_free(profile->end_ns);
    rt_memory_free(profile);
}

/* Asks the device, if there is one, whether its clock runs. */
static rt_status clock_choose(rt_profile *profile, const rt_device *device, rt_watchdog *watchdog, rt_error *error) {
    if (device == NULL) return RT_OK;
    rt_watchdog_arm(watchdog, RT_NO_STEP);
    rt_status status = rt_event_clock_read(device->event_clock, profile->cl, device->context, device->profiling, error);
    rt_watchdog_disarm(watchdog);
    profile->hangs = *device->event_clock == RT_EVENT_CLOCK_HANGS;
    profile->by_host = profile->hangs || *device->event_clock == RT_EVENT_CLOCK_STANDS;
    profile->queue = profile->hangs ? device->plain : device->profiling;
    return status;
}

rt_status rt_profile_create(rt_profile **profile, const rt_device *device, rt_watchdog *watchdog, uint32_t step_count,
                            rt_error *error) {
    rt_profile *made = *profile = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "a profile");
    *made = (rt_profile){.cl = device ? rt_device_cl(device) : NULL, .step_count = step_count};
    made->start_ns = rt_memory_allocate(step_count, sizeof *made->start_ns);
    made->duration_ns = rt_memory_allocate(step_count, sizeof *made->duration_ns);
    made->end_ns = rt_memory_allocate(step_count, sizeof *made->end_ns);
    bool whole = made->start_ns != NULL && made->duration_ns != NULL && made->end_ns != NULL;
    rt_status status = whole ? clock_choose(made, device, watchdog, error) : rt_error_no_memory(error, "a profile");
    if (status == RT_OK) return RT_OK;
    rt_profile_destroy(made);
    *profile = NULL;
    return status;
}

bool rt_profile_is_by_host(const rt_profile *profile) { return profile->by_host; }

void rt_profile_clock_write(const rt_profile *profile, rt_json *json) {
    rt_json_bool(json, "by_host", profile->by_host);
    if (profile->hangs) rt_json_bool(json, "profiling_hangs", true);
}

cl_command_queue rt_profile_queue(const rt_profile *profile) { return profile->queue; }

void rt_profile_reset(rt_profile *profile) {
    events_release(profile);
    for (uint32_t i = 0; i < profile->step_count; i++) {
        profile->start_ns[i] = not_started;
        profile->duration_ns[i] = profile->end_ns[i] = 0;
    }
}

cl_event *rt_profile_next(rt_profile *profile, uint32_t step) {
    if (profile->event_count == profile->event_capacity) {
        uint32_t capacity = profile->event_capacity ? profile->event_capacity * 2 : 64;
        timed_event *grown = rt_memory_grow(profile->events, capacity, sizeof *grown);
        if (grown == NULL) return NULL;
        profile->events = grown;
        profile->event_capacity = capacity;
    }
    timed_event *next = &profile->events[profile->event_count++];
    *next = (timed_event){.event = NULL, .step = step, .start_ns = profile->by_host ? rt_clock_ns() : 0};
    return &next->event;
}

rt_status rt_profile_launched(rt_profile *profile, cl_command_queue queue, uint32_t step, rt_error *error) {
    if (!profile->by_host) return RT_OK;
    cl_int code = profile->cl->Finish(queue);
    if (profile->event_count > 0) profile->events[profile->event_count - 1].end_ns = rt_clock_ns();
    return rt_opencl_check(error, "clFinish", code, (int32_t)step);
}

void rt_profile_host_step(rt_profile *profile, uint32_t step, uint64_t start_ns, uint64_t end_ns) {
    profile->start_ns[step] = start_ns - profile->host_offset_ns;
    profile->duration_ns[step] = end_ns - start_ns;
    profile->end_ns[step] = end_ns - profile->host_offset_ns;
}

rt_status rt_profile_align(rt_profile *profile, cl_event event, rt_error *error) {
    cl_ulong end_ns = 0;
    cl_int code = profile->by_host ? CL_SUCCESS : profile->cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end_ns, &end_ns, NULL);
    profile->host_offset_ns = profile->by_host ? 0 : rt_clock_ns() - end_ns;
    profile->cl->ReleaseEvent(event);
    return rt_opencl_check(error, "clGetEventProfilingInfo", code, RT_NO_STEP);
}

/* Times of an event that has ended, on the device's clock; an error where its launch failed. Drivers have been seen
 * whose end is before the start: that counts as no time. */
static rt_status event_times(const rt_profile *profile, const timed_event *entry, uint64_t *start_ns,
                             uint64_t *end_ns, rt_error *error) {
    const rt_opencl_functions *cl = profile->cl;
    cl_int state = 0;
    cl_int step = (int32_t)entry->step;
    *start_ns = entry->start_ns, *end_ns = entry->end_ns;
    cl->GetEventInfo(entry->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (state < 0) return rt_opencl_check(error, "clEnqueueNDRangeKernel", state, step);
    if (profile->by_host) return RT_OK;
    cl_int code = cl->GetEventProfilingInfo(entry->event, CL_PROFILING_COMMAND_START, sizeof *start_ns, start_ns, NULL);
    if (code == CL_SUCCESS) {
        code = cl->GetEventProfilingInfo(entry->event, CL_PROFILING_COMMAND_END, sizeof *end_ns, end_ns, NULL);
    }
    if (*end_ns < *start_ns) *end_ns = *start_ns;
    return rt_opencl_check(error, "clGetEventProfilingInfo", code, step);
}

/* Adds the times of one launch to those of its step, which may have several. */
static rt_status event_read(rt_profile *profile, const timed_event *entry, rt_error *error) {
    uint64_t start_ns, end_ns;
    if (entry->event == NULL) return RT_OK; /* its launch was refused, which was said then */
    rt_status status = event_times(profile, entry, &start_ns, &end_ns, error);
    if (status != RT_OK) return status;
    if (start_ns < profile->start_ns[entry->step]) profile->start_ns[entry->step] = start_ns;
    if (end_ns > profile->end_ns[entry->step]) profile->end_ns[entry->step] = end_ns;
    profile->duration_ns[entry->step] += end_ns - start_ns;
    return RT_OK;
}

/* Gives each step the time that passed between the end of all before it and its start. */
static void gaps_assign(rt_profile *profile) {
    uint64_t ended_ns = not_started;
    for (uint32_t i = 0; i < profile->step_count; i++) {
        uint64_t start_ns = profile->start_ns[i];
        if (start_ns == not_started) continue; /* an event was missing, or the round failed before it */
        if (ended_ns != not_started && ended_ns < start_ns) {
            profile->duration_ns[i] += start_ns - ended_ns;
            profile->start_ns[i] = ended_ns;
        }
        if (ended_ns == not_started || profile->end_ns[i] > ended_ns) ended_ns = profile->end_ns[i];
    }
}

/* Makes starts relative to the round's first. */
static void starts_shift(rt_profile *profile) {
    uint64_t origin = not_started;
    for (uint32_t i = 0; i < profile->step_count; i++) {
        if (profile->start_ns[i] < origin) origin = profile->start_ns[i];
    }
    for (uint32_t i = 0; i < profile->step_count; i++) {
        profile->start_ns[i] = profile->start_ns[i] == not_started ? 0 : profile->start_ns[i] - origin;
    }
}

rt_status rt_profile_collect(rt_profile *profile, rt_error *error) {
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < profile->event_count && status == RT_OK; i++) {
        status = event_read(profile, &profile->events[i], error);
    }
    events_release(profile);
    gaps_assign(profile);
    starts_shift(profile);
    return status;
}

const uint64_t *rt_profile_start_ns(const rt_profile *profile) { return profile->start_ns; }

const uint64_t *rt_profile_duration_ns(const rt_profile *profile) { return profile->duration_ns; }

uint32_t rt_profile_event_count(const rt_profile *profile) { return profile->event_count; }

rt_status rt_profile_event_ns(const rt_profile *profile, uint32_t index, uint64_t *ns, rt_error *error) {
    uint64_t start_ns, end_ns, none_ns, before_ns = not_started;
    if (index > 0 && profile->events[index - 1].event != NULL) {
        rt_status before = event_times(profile, &profile->events[index - 1], &none_ns, &before_ns, error);
        if (before != RT_OK) return before;
    }
    rt_status status = event_times(profile, &profile->events[index], &start_ns, &end_ns, error);
    *ns = end_ns - (before_ns < start_ns ? before_ns : start_ns);
    return status;
}
