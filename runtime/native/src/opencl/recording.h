/* Rows of launches that are recorded once, and then enqueued by one call: Qualcomm's cl_qcom_recordable_queues.
 *
 * A launch in a recording has no event, so that rounds whose steps are timed enqueue one by one as ever.
 *
 * State: an rt_recordings, with those of a plan. One thread at a time.
 */
#ifndef RT_RECORDING_H
#define RT_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "device.h"
#include "steps.h"

typedef struct rt_recordings rt_recordings;

/* None yet of a plan of so many steps, for rt_recordings_destroy; `*recordings` is NULL where the device has no queue
 * for them. RT_NO_MEMORY. */
rt_status rt_recordings_create(rt_recordings **recordings, const rt_device *device, uint32_t step_count,
                               rt_error *error);

/* Releases them, and nothing that they launch; NULL is ignored. */
void rt_recordings_destroy(rt_recordings *recordings);

/* Enqueues OpenCL steps in a row, which were all prepared, on the plain queue; they are recorded before the first
 * time. False where the driver refuses, which is not tried again: they are to be enqueued one by one. */
bool rt_recordings_enqueue(rt_recordings *recordings, const rt_steps *steps, uint32_t first, uint32_t last);

#endif
