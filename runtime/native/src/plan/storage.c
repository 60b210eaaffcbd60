/* Where the device shares the host's memory, weights are used in the data file's pages, not copied. Scratch pools
 * belong to the device; CPU steps reach them by mapping, which costs a copy only where the two have memories of their
 * own.
 */
#include "storage.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/errors.h"

/* Scratch: an object on the device, mapped while CPU steps run, or own memory where there is no device. Weights: part
 * of the plan's data, and an object besides where there is a device. */
typedef struct {
    cl_mem object;
    uint8_t *host;
} pool;

struct rt_storage {
    const rt_plan *plan;
    const rt_device *device; /* NULL: all on the host */
    pool *pools;
    cl_mem *images;
    rt_storage_sizes sizes;
};

/* Makes a scratch pool; its content is whatever the memory held, but zeros on the host. */
static rt_status scratch_create(rt_storage *storage, uint32_t index, rt_error *error) {
    const rt_device *device = storage->device;
    uint64_t size = storage->plan->pools[index].size;
    pool *made = &storage->pools[index];
    cl_int code;
    storage->sizes.scratch_bytes += size;
    if (device == NULL) {
        made->host = rt_memory_allocate_aligned(size, 1);
        return made->host ? RT_OK : rt_error_no_memory(error, "a scratch pool");
    }
    made->object = rt_device_cl(device)->CreateBuffer(device->context, CL_MEM_READ_WRITE, size, NULL, &code);
    return rt_device_check_memory(device, "clCreateBuffer", code, "scratch pool", index, size, error);
}

/* What a plan's record has in the data file. Not const, since OpenCL takes such pointers only; nothing writes there. */
static uint8_t *plan_content(const rt_storage *storage, uint64_t offset) {
    return (uint8_t *)(uintptr_t)storage->plan->data + offset;
}

/* Whether a step on the device reads a pool: weights that only CPU steps read need no memory there. */
static bool device_reads(const rt_plan *plan, uint32_t pool) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const rt_step_record *step = &plan->steps[i];
        const rt_arg_record *args = rt_plan_step_args(plan, step);
        for (uint32_t k = 0; step->kind == RT_STEP_KIND_OPENCL && k < step->arg_count; k++) {
            if (args[k].kind == RT_ARG_KIND_POOL && args[k].value == pool) return true;
        }
    }
    return false;
}

/* Makes a pool of either kind, and counts its bytes. */
static rt_status pool_create(rt_storage *storage, uint32_t index, rt_error *error) {
    const rt_pool_record *record = &storage->plan->pools[index];
    pool *made = &storage->pools[index];
    if (record->kind == RT_POOL_KIND_SCRATCH) return scratch_create(storage, index, error);
    made->host = plan_content(storage, record->data_offset);
    storage->sizes.weights_bytes += record->size;
    if (storage->device == NULL || !device_reads(storage->plan, index)) return RT_OK;
    return rt_device_constant(storage->device, made->host, record->size, true, &made->object, error);
}

/* An image of weights, copied from the data, or a scratch image. A plan with images has a device. */
static rt_status image_create(rt_storage *storage, uint32_t index, rt_error *error) {
    const rt_image_record *record = &storage->plan->images[index];
    const rt_device *device = storage->device;
    static const cl_uint types[RT_IMAGE_FORMAT_COUNT] = {
        [RT_IMAGE_FORMAT_FLOAT] = CL_FLOAT, [RT_IMAGE_FORMAT_HALF] = CL_HALF_FLOAT,
        [RT_IMAGE_FORMAT_BYTES] = CL_SIGNED_INT8};
    cl_image_format format = {CL_RGBA, types[record->format]};
    bool constant = record->data_offset != RT_NO_DATA;
    cl_bitfield flags = constant ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR : CL_MEM_READ_WRITE;
    void *content = constant ? plan_content(storage, record->data_offset) : NULL;
    uint64_t size = rt_image_bytes(record);
    cl_int code;
    *(constant ? &storage->sizes.weights_bytes : &storage->sizes.images_bytes) += size;
    storage->images[index] = rt_device_cl(device)->CreateImage2D(device->context, flags, &format, record->width,
                                                                 record->height, 0, content, &code);
    return rt_device_check_memory(device, "clCreateImage2D", code, "image", index, size, error);
}

/* Makes all pools, then all images; RT_OPENCL or RT_NO_MEMORY. What it makes before it fails is left for
 * rt_storage_destroy. */
static rt_status storage_fill(rt_storage *storage, rt_error *error) {
    const rt_plan *plan = storage->plan;
    rt_status status = RT_OK;
    storage->pools = rt_memory_allocate(plan->pool_count, sizeof *storage->pools);
    storage->images = rt_memory_allocate(plan->image_count, sizeof *storage->images);
    if (storage->pools == NULL || storage->images == NULL) return rt_error_no_memory(error, "the plan's pools");
    for (uint32_t i = 0; i < plan->pool_count && status == RT_OK; i++) status = pool_create(storage, i, error);
    for (uint32_t i = 0; i < plan->image_count && status == RT_OK; i++) status = image_create(storage, i, error);
    return status;
}

rt_status rt_storage_create(rt_storage **storage, const rt_plan *plan, const rt_device *device, rt_error *error) {
    rt_storage *made = *storage = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "the plan's pools");
    *made = (rt_storage){.plan = plan, .device = device};
    rt_status status = storage_fill(made, error);
    if (status != RT_OK) {
        rt_storage_destroy(made);
        *storage = NULL;
    }
    return status;
}

/* Releases a memory object; NULL, one that was never made, is ignored. */
static void object_release(const rt_storage *storage, cl_mem object) {
    if (object != NULL) rt_device_cl(storage->device)->ReleaseMemObject(object);
}

void rt_storage_destroy(rt_storage *storage) {
    if (storage == NULL) return;
    const rt_plan *plan = storage->plan;
    for (uint32_t i = 0; storage->pools != NULL && i < plan->pool_count; i++) {
        object_release(storage, storage->pools[i].object);
        bool own = storage->device == NULL && plan->pools[i].kind == RT_POOL_KIND_SCRATCH;
        if (own) rt_memory_free_aligned(storage->pools[i].host);
    }
    for (uint32_t i = 0; storage->images != NULL && i < plan->image_count; i++) {
        object_release(storage, storage->images[i]);
    }
    rt_memory_free(storage->pools);
    rt_memory_free(storage->images);
    rt_memory_free(storage);
}

rt_storage_sizes rt_storage_sizes_of(const rt_storage *storage) { return storage->sizes; }

cl_mem rt_storage_pool(const rt_storage *storage, uint32_t index) { return storage->pools[index].object; }

cl_mem rt_storage_image(const rt_storage *storage, uint32_t index) { return storage->images[index]; }

uint8_t *rt_storage_host(const rt_storage *storage, uint32_t index) { return storage->pools[index].host; }

rt_status rt_storage_map(rt_storage *storage, uint32_t index, cl_command_queue queue, cl_event *event, uint32_t step,
                         rt_error *error) {
    pool *target = &storage->pools[index];
    cl_int code;
    target->host = rt_device_cl(storage->device)
                       ->EnqueueMapBuffer(queue, target->object, 1, CL_MAP_READ | CL_MAP_WRITE, 0,
                                          storage->plan->pools[index].size, 0, NULL, event, &code);
    if (code != CL_SUCCESS) target->host = NULL; /* so that unmapping passes it over */
    return rt_opencl_check(error, "clEnqueueMapBuffer", code, (int32_t)step);
}

rt_status rt_storage_unmap(rt_storage *storage, uint32_t index, cl_command_queue queue, uint32_t step,
                           rt_error *error) {
    pool *target = &storage->pools[index];
    if (target->host == NULL) return RT_OK;
    cl_int code =
        rt_device_cl(storage->device)->EnqueueUnmapMemObject(queue, target->object, target->host, 0, NULL, NULL);
    target->host = NULL;
    return rt_opencl_check(error, "clEnqueueUnmapMemObject", code, (int32_t)step);
}

rt_status rt_storage_write(rt_storage *storage, uint32_t index, uint64_t offset, const void *source, uint64_t size,
                           rt_error *error) {
    const pool *target = &storage->pools[index];
    if (size == 0) return RT_OK; /* an empty tensor, which OpenCL would refuse to copy */
    if (storage->device == NULL) {
        memcpy(target->host + offset, source, size);
        return RT_OK;
    }
    cl_int code =
        rt_device_cl(storage->device)
            ->EnqueueWriteBuffer(storage->device->plain, target->object, 1, offset, size, source, 0, NULL, NULL);
    return rt_opencl_check(error, "clEnqueueWriteBuffer", code, RT_NO_STEP);
}

rt_status rt_storage_read(const rt_storage *storage, uint32_t index, uint64_t offset, void *target, uint64_t size,
                          rt_error *error) {
    const pool *source = &storage->pools[index];
    if (size == 0) return RT_OK;
    if (storage->device == NULL) {
        memcpy(target, source->host + offset, size);
        return RT_OK;
    }
    cl_int code =
        rt_device_cl(storage->device)
            ->EnqueueReadBuffer(storage->device->plain, source->object, 1, offset, size, target, 0, NULL, NULL);
    return rt_opencl_check(error, "clEnqueueReadBuffer", code, RT_NO_STEP);
}

rt_status rt_storage_write_image(rt_storage *storage, uint32_t index, const void *pixels, rt_error *error) {
    const rt_image_record *record = &storage->plan->images[index];
    const size_t origin[3] = {0, 0, 0};
    const size_t region[3] = {record->width, record->height, 1};
    cl_int code = rt_device_cl(storage->device)
                      ->EnqueueWriteImage(storage->device->plain, storage->images[index], 1, origin, region, 0, 0,
                                          pixels, 0, NULL, NULL);
    return rt_opencl_check(error, "clEnqueueWriteImage", code, RT_NO_STEP);
}
