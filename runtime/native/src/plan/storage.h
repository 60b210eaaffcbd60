/* Pools and images of a plan, on the device or on the host.
 *
 * State: an rt_storage, with every memory object and, where no step needs OpenCL, the host memory in its place. Weights
 * stay readable in the data file besides. One thread at a time, but while CPU steps run their workers use the host's
 * addresses.
 */
#ifndef RT_STORAGE_H
#define RT_STORAGE_H

#include <stdint.h>

#include "../../include/farmrt.h"
#include "../opencl/device.h"
#include "../opencl/opencl.h"
#include "plan.h"

typedef struct rt_storage rt_storage;

/* Bytes by what they hold. A value. */
typedef struct {
    uint64_t scratch_bytes, weights_bytes, images_bytes;
} rt_storage_sizes;

/* Makes every pool and image of a plan, for rt_storage_destroy; weights keep pointing into the plan's data. `device`
 * is NULL where the plan does not use OpenCL. RT_OPENCL or RT_NO_MEMORY; `*storage` is NULL then. */
rt_status rt_storage_create(rt_storage **storage, const rt_plan *plan, const rt_device *device, rt_error *error);

/* Releases all of it; nothing may be mapped or enqueued. NULL is ignored. */
void rt_storage_destroy(rt_storage *storage);

/* What was made. */
rt_storage_sizes rt_storage_sizes_of(const rt_storage *storage);

/* Memory objects, for arguments of kernels; they stay the storage's. */
cl_mem rt_storage_pool(const rt_storage *storage, uint32_t pool);
cl_mem rt_storage_image(const rt_storage *storage, uint32_t image);

/* The host's address of a pool: weights always have one and must not be written there; scratch pools do without a
 * device, and while they are mapped. NULL else. */
uint8_t *rt_storage_host(const rt_storage *storage, uint32_t pool);

/* Maps a scratch pool of the device until rt_storage_unmap, and waits for what was enqueued before. The map's event, if
 * one is asked for, is the caller's to release. RT_OPENCL names the step. */
rt_status rt_storage_map(rt_storage *storage, uint32_t pool, cl_command_queue queue, cl_event *event, uint32_t step,
                         rt_error *error);

/* Ends a mapping, in the order of the queue; a pool that is not mapped is left as it is. */
rt_status rt_storage_unmap(rt_storage *storage, uint32_t pool, cl_command_queue queue, uint32_t step, rt_error *error);

/* Copies between the caller's memory and a range of a scratch pool, which the caller has checked; waits. */
rt_status rt_storage_write(rt_storage *storage, uint32_t pool, uint64_t offset, const void *source, uint64_t size,
                           rt_error *error);
rt_status rt_storage_read(const rt_storage *storage, uint32_t pool, uint64_t offset, void *target, uint64_t size,
                          rt_error *error);

/* Copies a whole image's pixels (rt_image_bytes of them) to the device; waits. */
rt_status rt_storage_write_image(rt_storage *storage, uint32_t image, const void *pixels, rt_error *error);

#endif
