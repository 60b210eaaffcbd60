/* Weights in another block size than the plan's: [group][ceil(rows/block)][col][block], zero-filled.
 *
 * State: an rt_repack, with each form of weights that was ever asked for; they live until it is destroyed. One thread
 * at a time.
 */
#ifndef RT_REPACK_H
#define RT_REPACK_H

#include <stdint.h>

#include "../../include/farmrt.h"
#include "../opencl/device.h"
#include "../opencl/opencl.h"
#include "plan.h"

typedef struct rt_repack rt_repack;

/* Weights that lie on the host. A value, whose memory stays the repack's. */
typedef struct {
    float *data;
    uint64_t count; /* elements that may be read */
} rt_repacked;

/* An empty one, for rt_repack_destroy; `device` is NULL where the plan does not use OpenCL. RT_NO_MEMORY; `*repack` is
 * NULL then. */
rt_status rt_repack_create(rt_repack **repack, const rt_plan *plan, const rt_device *device, rt_error *error);

/* Releases it and every form; NULL is ignored. */
void rt_repack_destroy(rt_repack *repack);

/* The weights of a packing (index of the plan's record) in blocks of `block`, made at the first request: as a memory
 * object of the device, or on the host for a CPU step. RT_NO_MEMORY or RT_OPENCL. */
rt_status rt_repack_on_device(rt_repack *repack, uint32_t pack, uint32_t block, cl_mem *object, rt_error *error);
rt_status rt_repack_on_host(rt_repack *repack, uint32_t pack, uint32_t block, rt_repacked *weights, rt_error *error);

#endif
