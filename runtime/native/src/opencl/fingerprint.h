/* Choice of a SET, the fingerprint that tuned parameters and compiled kernels are valid for. Without state. */
#ifndef RT_FINGERPRINT_H
#define RT_FINGERPRINT_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../plan/container.h"
#include "device.h"
#include "format.h"
#include "../plan/plan.h"

typedef enum { RT_MATCH_NONE, RT_MATCH_FAMILY, RT_MATCH_EXACT } rt_match;

/* How well the best set of a file fits. A value. */
typedef struct {
    rt_match match;
    char reason[256]; /* why not exact; empty where it is */
} rt_fit;

/* The word of docs/farmrt.md for a match. */
const char *rt_match_name(rt_match match);

/* Whether the strings and entry ranges of every set lie within the file, which has `entry_count` entries; RT_BAD_FILE
 * names the first that does not. Must have accepted a file before rt_fingerprint_choose reads it. */
rt_status rt_fingerprint_check(const rt_container *file, uint32_t entry_count, rt_error *error);

/* The best set of a file for a plan on a device and SoC (docs/farmrt.md: the rules); NULL where none fits. `device` is
 * NULL where the plan does not use OpenCL; an empty `soc` fits any. Fills `fit` in either case. */
const rt_set_record *rt_fingerprint_choose(const rt_container *file, const rt_plan *plan, const rt_device *device,
                                           const char *soc, bool allow_family, rt_fit *fit);

#endif
