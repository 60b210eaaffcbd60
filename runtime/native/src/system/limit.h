/* Splitting of long launches, so that a device that also draws the screen is not held for longer than a limit.
 *
 * State: an rt_limit, with the parts that each step's launch is split into.
 */
#ifndef RT_LIMIT_H
#define RT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../plan/plan.h"

typedef struct rt_limit rt_limit;

/* Every launch in one part, for rt_limit_destroy. `limit_ms` 0: none is ever split. RT_NO_MEMORY; `*limit` is NULL
 * then. */
rt_status rt_limit_create(rt_limit **limit, const rt_plan *plan, double limit_ms, rt_error *error);

/* Releases it; NULL is ignored. */
void rt_limit_destroy(rt_limit *limit);

/* Whether long launches of this plan are split. */
bool rt_limit_is_set(const rt_limit *limit);

/* Whether the next round must be measured to know which launches to split. */
bool rt_limit_is_pending(const rt_limit *limit);

/* Chooses the parts of each step from its time in a measured round; what is not splittable stays whole. Nothing is
 * pending after it. */
void rt_limit_apply(rt_limit *limit, const uint64_t *duration_ns);

/* Launches that a step is split into, at least 1. */
uint32_t rt_limit_parts(const rt_limit *limit, uint32_t step);

#endif
