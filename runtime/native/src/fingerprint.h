/* Choice of a SET, the fingerprint that tuned parameters and compiled kernels are valid for. */
#ifndef RT_FINGERPRINT_H
#define RT_FINGERPRINT_H

#include "container.h"
#include "device.h"
#include "plan.h"

typedef enum { RT_MATCH_NONE, RT_MATCH_FAMILY, RT_MATCH_EXACT } rt_match;

const char *rt_match_name(rt_match match);

/* The best set of a file for a device and a plan (docs/farmrt.md: the rules); NULL where none fits, and `reason` says
 * why. `device` is NULL where the plan does not use OpenCL. */
const rt_set_record *rt_fingerprint_choose(const rt_container *file, const rt_plan *plan, const rt_device *device,
                                           const char *soc, bool allow_family, rt_match *match, char *reason,
                                           size_t reason_size);

/* Strings and entry ranges of every set. */
rt_status rt_fingerprint_check(const rt_container *file, uint32_t entry_count, rt_error *error);

#endif
