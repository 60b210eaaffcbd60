/* Calls of CPU operators: a CPU step's kernel string and arguments, taken apart and checked.
 *
 * Owner of the rt_cpu_call, which operators read. It points into the plan and into repacked weights, which outlive it.
 */
#ifndef RT_CPU_CALL_H
#define RT_CPU_CALL_H

#include <stdint.h>

#include "../../include/farmrt.h"
#include "cpu_operator.h"
#include "cpu_users.h"
#include "../plan/plan.h"
#include "../plan/repack.h"
#include "../plan/storage.h"
#include "workers.h"

/* Makes the call of a CPU step, one of this farmrt's operators or of `users` (NULL: there are none), for
 * rt_cpu_call_destroy, and checks that all it will access lies within its pools.
 * Weights in blocks of another size are repacked. RT_BAD_FILE or RT_UNSUPPORTED with the step and the problem, or
 * RT_NO_MEMORY; `*call` is NULL then. */
rt_status rt_cpu_call_create(const rt_cpu_call **call, const rt_plan *plan, uint32_t step, const rt_tile_kernels *tiles,
                             const rt_cpu_users *users, rt_repack *repack, rt_error *error);

/* Releases it; NULL is ignored. */
void rt_cpu_call_destroy(const rt_cpu_call *call);

/* Runs it and waits; its scratch pools have host addresses, and each worker the scratch memory that it needs. Returns
 * what is wrong with the values that it was given, or NULL. */
const char *rt_cpu_call_run(const rt_cpu_call *call, const rt_storage *storage, rt_workers *workers);

/* An error about a CPU step: its file, name, operator and the problem. Returns `status`. */
rt_status rt_cpu_step_error(const rt_plan *plan, uint32_t step, rt_status status, const char *problem, rt_error *error);

#endif
