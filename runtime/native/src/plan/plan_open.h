/* Opening a plan with its data file.
 *
 * Owner of the rt_plan that every other part reads, and of both files' content.
 */
#ifndef RT_PLAN_OPEN_H
#define RT_PLAN_OPEN_H

#include "../../include/farmrt.h"
#include "../system/file.h"
#include "plan.h"

/* Reads the plan, maps the data and checks both, for rt_plan_close. RT_BAD_FILE where anything in them is wrong, RT_IO,
 * RT_NO_MEMORY; `*plan` is NULL then. The arguments of CPU steps are left to their operators (cpu_call.h). */
rt_status rt_plan_open(const rt_plan **plan, const rt_source *file, const rt_source *data, rt_error *error);

/* Releases a plan and all that points into it; NULL is ignored. */
void rt_plan_close(const rt_plan *plan);

#endif
