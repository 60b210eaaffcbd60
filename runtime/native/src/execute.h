/* Rounds: every step of the plan, enqueued at once, waited for once. */
#ifndef RT_EXECUTE_H
#define RT_EXECUTE_H

#include "engine.h"
#include "profile.h"

/* One round. With a profile the steps are timed. `wall_ns` is the time from the first enqueue to the end. */
rt_status rt_round_run(rt_engine *engine, rt_profile *profile, uint64_t *wall_ns, rt_error *error);

/* Steps `first` to `last`, both included; blocks. */
rt_status rt_steps_run(rt_engine *engine, uint32_t first, uint32_t last, rt_error *error);

/* Enqueues one launch of a kernel on a queue, in `parts`; `profile` may be NULL. */
rt_status rt_launch_enqueue(rt_engine *engine, cl_command_queue queue, uint32_t step, cl_kernel kernel,
                            const rt_launch *launch, uint32_t parts, rt_profile *profile, rt_error *error);

#endif
