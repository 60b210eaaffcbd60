/* Hints to a GPU's driver: how high it should clock (perf), and whose work goes first (priority).
 *
 * Qualcomm takes them as properties of the context (cl_qcom_perf_hint, cl_qcom_priority_hint); others, Arm among them,
 * as properties of queues (cl_khr_throttle_hints, cl_khr_priority_hints). Only what the device lists is asked for, and
 * what the driver refuses all the same is left out.
 *
 * State: an rt_hints, what was asked for and what came of it. Written by whoever opens the device, in one thread.
 */
#ifndef RT_HINTS_H
#define RT_HINTS_H

#include <stdint.h>

#include "../../include/farmrt.h"
#include "../opencl/opencl.h"

typedef enum { RT_HINT_KIND_PERF = 0, RT_HINT_KIND_PRIORITY, RT_HINT_KINDS } rt_hint_kind;

/* What became of a hint; `extension` took it, or refused it, and is empty where the device lists none. A value. */
typedef struct {
    rt_hint asked;
    const char *outcome; /* `default` (nothing was asked for), `applied`, `not supported`, `refused` */
    const char *extension;
} rt_hint_use;

typedef struct rt_hints rt_hints;

/* What of these the extensions of an open device can take, for rt_hints_destroy. RT_NO_MEMORY; `*hints` is NULL then. */
rt_status rt_hints_create(rt_hints **hints, const rt_opencl *opencl, rt_hint perf, rt_hint priority, rt_error *error);

/* Releases it; NULL is ignored. */
void rt_hints_destroy(rt_hints *hints);

/* Makes the context with all hints that the driver takes; the others become `refused`. RT_OPENCL where none can be made
 * without hints either. */
rt_status rt_hints_context(rt_hints *hints, const rt_opencl *opencl, cl_context *context, rt_error *error);

/* Makes an in-order queue likewise; `properties` are the queue's own. */
rt_status rt_hints_queue(rt_hints *hints, const rt_opencl *opencl, cl_context context, cl_bitfield properties,
                         cl_command_queue *queue, rt_error *error);

/* What became of a hint so far. */
rt_hint_use rt_hints_use(const rt_hints *hints, rt_hint_kind kind);

/* The word for a hint: `default`, `low`, `normal`, `high`. */
const char *rt_hint_name(rt_hint hint);

#endif
