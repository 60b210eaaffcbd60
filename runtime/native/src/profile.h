/* Times of the steps of one round: from OpenCL events, and from the clock for CPU steps. A step's time counts from the
   end of the one before it: what the driver needs to launch it is its own cost, and the sum is that of the round. */
#ifndef RT_PROFILE_H
#define RT_PROFILE_H

#include "engine.h"

typedef struct {
    cl_event event;
    uint32_t step;
} rt_profile_event;

typedef struct {
    const rt_opencl_functions *cl;
    rt_profile_event *events;
    uint32_t event_count, event_capacity;
    uint32_t step_count;
    /* one a step, of the last round that was collected; start relative to the first step's */
    uint64_t *start_ns, *duration_ns;
    uint64_t *end_ns; /* on the device's clock */
    uint64_t host_offset_ns; /* host clock minus the device's clock, modulo 2^64 */
} rt_profile;

rt_status rt_profile_create(rt_profile *profile, const rt_engine *engine, rt_error *error);
void rt_profile_destroy(rt_profile *profile);

/* Times of an event that has ended, on the device's clock; an error where its launch failed. */
rt_status rt_event_times(const rt_opencl_functions *cl, const rt_profile_event *entry, uint64_t *start_ns,
                         uint64_t *end_ns, rt_error *error);

/* Begins a round. */
void rt_profile_reset(rt_profile *profile);
/* Where the next launch of a step puts its event; NULL without memory, which means no event. */
cl_event *rt_profile_next(rt_profile *profile, uint32_t step);
/* Takes the time of a step from the host's clock. */
void rt_profile_host_step(rt_profile *profile, uint32_t step, uint64_t start_ns, uint64_t end_ns);
/* Compares the clocks: `event` ended just now. Releases it. */
rt_status rt_profile_align(rt_profile *profile, cl_event event, rt_error *error);
/* Reads the events of the round, which has ended, and releases them. */
rt_status rt_profile_collect(rt_profile *profile, rt_error *error);

#endif
