/* Times of the steps of one round: from OpenCL events, and from the clock for CPU steps. A step's time counts from the
 * end of the one before it: what the driver needs to launch it is its own cost, and the sum is that of the round.
 *
 * State: an rt_profile, with the events that are not read yet and the times of the last round that was collected. One
 * thread at a time.
 */
#ifndef RT_PROFILE_H
#define RT_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../opencl/device.h"
#include "../serve/json.h"
#include "watchdog.h"

typedef struct rt_profile rt_profile;

/* An empty one for so many steps, for rt_profile_destroy; `device` may be NULL where there is none. The watchdog, which
 * may be NULL, watches while the device is asked. RT_NO_MEMORY, or RT_OPENCL where the device does not tell whether its
 * clock runs; `*profile` is NULL then. */
rt_status rt_profile_create(rt_profile **profile, const rt_device *device, rt_watchdog *watchdog, uint32_t step_count,
                            rt_error *error);

/* Whether launches are waited for one by one and timed by the host, because the clock of the device's events stands, or
 * the queue that profiles hangs. `by_host` is the first, `profiling_hangs` the second, in the answer. */
bool rt_profile_is_by_host(const rt_profile *profile);
void rt_profile_clock_write(const rt_profile *profile, rt_json *json);

/* The queue of the launches that are timed; of a device. */
cl_command_queue rt_profile_queue(const rt_profile *profile);

/* Releases it and its events; NULL is ignored. */
void rt_profile_destroy(rt_profile *profile);

/* Begins a round: releases what events are left, and forgets the times. */
void rt_profile_reset(rt_profile *profile);

/* Where the next launch of a step puts its event, which becomes the profile's; valid until the next call. NULL without
 * memory, which means no event: the times of the launch are then missing. */
cl_event *rt_profile_next(rt_profile *profile, uint32_t step);

/* Says that this launch was enqueued. One that the host times is waited for; RT_OPENCL names the step where that fails. */
rt_status rt_profile_launched(rt_profile *profile, cl_command_queue queue, uint32_t step, rt_error *error);

/* Takes the time of a step from the host's clock. */
void rt_profile_host_step(rt_profile *profile, uint32_t step, uint64_t start_ns, uint64_t end_ns);

/* Compares the host's clock with the device's: `event` ended just now. Releases the event, whatever it returns. */
rt_status rt_profile_align(rt_profile *profile, cl_event event, rt_error *error);

/* Reads the events of the round, which has ended, and releases them. RT_OPENCL names the step whose launch failed; the
 * times are incomplete then. */
rt_status rt_profile_collect(rt_profile *profile, rt_error *error);

/* Times that were collected, one a step: the start (relative to the first step's) and the duration; 0 for a step that
 * did not run. Valid until the next reset. */
const uint64_t *rt_profile_start_ns(const rt_profile *profile);
const uint64_t *rt_profile_duration_ns(const rt_profile *profile);

/* Reads single events instead of collecting them: how many there are, and how long the index-th launch took, which has
 * ended: from the end of the one before it, as in a round. RT_OPENCL names the step whose launch failed. */
uint32_t rt_profile_event_count(const rt_profile *profile);
rt_status rt_profile_event_ns(const rt_profile *profile, uint32_t index, uint64_t *ns, rt_error *error);

#endif
