/* Rounds: every step of the plan, enqueued at once, waited for once.
 *
 * State: an rt_executor, with the number of rounds and, while it runs, the mapped pools. One thread at a time.
 */
#ifndef RT_EXECUTE_H
#define RT_EXECUTE_H

#include <stdint.h>

#include "../../include/farmrt.h"
#include "../cpu/cpu.h"
#include "../opencl/device.h"
#include "../system/limit.h"
#include "../plan/plan.h"
#include "profile.h"
#include "../opencl/steps.h"
#include "../plan/storage.h"
#include "watchdog.h"

typedef struct rt_executor rt_executor;

/* What a round uses; all of it outlives the executor. A value. */
typedef struct {
    const rt_plan *plan;
    const rt_device *device; /* NULL where no step needs it */
    rt_storage *storage;
    rt_steps *steps;
    rt_cpu *cpu;
    rt_limit *limit;
    rt_watchdog *watchdog; /* NULL: nobody watches */
    void (*on_progress)(void *user); /* NULL: nobody is told */
    void *on_progress_user;
} rt_executor_parts;

/* One that has run nothing yet, for rt_executor_destroy. RT_NO_MEMORY; `*executor` is NULL then. */
rt_status rt_executor_create(rt_executor **executor, const rt_executor_parts *parts, rt_error *error);

/* Releases it; NULL is ignored. */
void rt_executor_destroy(rt_executor *executor);

/* One round. With a profile the steps are timed, and the times collected. `wall_ns` is the time from the first enqueue
 * to the end. The first is waited for in parts where there is a watchdog, so that a slow one is seen to progress.
 * Whatever it returns, the device is idle and nothing is mapped. Kernels that are not made yet are made, so
 * it fails as rt_steps_prepare does, or with RT_OPENCL and the step. */
rt_status rt_executor_round(rt_executor *executor, rt_profile *profile, uint64_t *wall_ns, rt_error *error);

/* Steps `first` to `last`, both included, outside of a round; waits, and fails as a round does. */
rt_status rt_executor_steps(rt_executor *executor, uint32_t first, uint32_t last, rt_error *error);

/* Rounds that succeeded. */
uint64_t rt_executor_rounds(const rt_executor *executor);

#endif
