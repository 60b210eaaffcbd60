/* Whether the times of a device's events tell anything. Mesa's Rusticl 22.3 answers the same two instants for every
 * event, so that each launch takes a nanosecond. Some drivers of phones never end what a queue that profiles is given,
 * or say that it ended before it began.
 *
 * State: one rt_event_clock a device, which is asked once, when the first times are wanted. One thread at a time.
 */
#ifndef RT_EVENT_CLOCK_H
#define RT_EVENT_CLOCK_H

#include <stdbool.h>

#include "../../include/farmrt.h"
#include "opencl.h"

typedef enum { RT_EVENT_CLOCK_UNKNOWN, RT_EVENT_CLOCK_RUNS, RT_EVENT_CLOCK_STANDS, RT_EVENT_CLOCK_HANGS } rt_event_clock;

/* Finds out where that is not known: writes twice to a buffer, a moment apart, on a queue that profiles. A clock that
 * has not moved between the two ends stands, as does one by which both begin after they end; a queue that does not end
 * a write of a word within seconds hangs: what waits for it, even to release it, may never return. RT_OPENCL with the
 * call that failed. */
rt_status rt_event_clock_read(rt_event_clock *clock, const rt_opencl_functions *cl, cl_context context,
                              cl_command_queue queue, rt_error *error);

#endif
