/* The times of a trial, taken in the state that a model leaves the device in.
 *
 * Before each timed launch come the steps that the trial names, so that caches hold what they would in a model, and
 * nothing is waited for in between. A ramp repeats the launch until its times agree. In pairs, the step's own launch is
 * timed in turns with the one that is tried: a clock or a neighbour that changes within milliseconds meets both alike.
 *
 * State: an rt_trial_times, with its profile and its times. One thread at a time.
 */
#ifndef RT_TRIAL_TIMES_H
#define RT_TRIAL_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../serve/json.h"
#include "launch.h"
#include "../run/parts.h"

/* Steps that a trial can run before each timed launch. */
enum { RT_TRIAL_BEFORE = 8 };

/* In place of a step where none is named. */
#define RT_TRIAL_NO_STEP UINT32_MAX

/* What to try, and in which state of the device. A value. */
typedef struct {
    uint32_t step, reps, warmup, block;
    uint32_t before[RT_TRIAL_BEFORE], before_count; /* steps whose own launches come before each timed one */
    uint32_t ramp_ms;                               /* longest time until the launch's times are steady; 0: no ramp */
    bool pairs;                                     /* time the step's own launch beside it, in turns */
    const char *kernel, *options; /* NULL: as in the plan */
    uint32_t global_size[3], local_size[3];
    uint32_t global_rank, local_rank; /* 0: as in the plan */
    bool check;
    uint32_t ahead_step;       /* whose program to build while this is measured; RT_TRIAL_NO_STEP: none */
    const char *ahead_options; /* NULL: as in the plan */
} rt_trial;

typedef struct rt_trial_times rt_trial_times;

/* Times that are not taken yet, for rt_trial_times_destroy; all that it is given must outlive it, and the kernels of
 * the steps before must have been prepared. RT_NO_MEMORY; `*times` is NULL then. */
rt_status rt_trial_times_create(rt_trial_times **times, const rt_parts *parts, const rt_trial *trial,
                                const rt_launch *launch, cl_kernel kernel, rt_error *error);

/* Releases it, but not the kernel; NULL is ignored. */
void rt_trial_times_destroy(rt_trial_times *times);

/* Launches what is tried so often, alone and untimed, and waits. RT_OPENCL names the step. */
rt_status rt_trial_times_warm(rt_trial_times *times, uint32_t count, rt_error *error);

/* The ramp, where one is asked for, then all repetitions. Without pairs where the step's own launch cannot be made, as
 * a kernel of which only some variants compile. RT_OPENCL names the step; RT_NO_MEMORY. */
rt_status rt_trial_times_take(rt_trial_times *times, rt_error *error);

/* Adds the members `ns`, `wall_ns` and `beside_build`, with pairs `own_ns`, and with a ramp `ramp` and `steady`. */
void rt_trial_times_write(const rt_trial_times *times, rt_json *json);

#endif
