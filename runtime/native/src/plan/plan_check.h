/* Checks of a plan's records against each other and the data file. Without state. */
#ifndef RT_PLAN_CHECK_H
#define RT_PLAN_CHECK_H

#include "../../include/farmrt.h"
#include "../system/file.h"
#include "plan.h"

/* RT_OK when every index, offset, size and string of the plan may be used without a test, and `data` is the file that
 * it was made with; else RT_BAD_FILE with the record and its problem. Reads nothing that it has not checked. */
rt_status rt_plan_check(const rt_plan *plan, const rt_bytes *data, rt_error *error);

#endif
