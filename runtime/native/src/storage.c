#include "storage.h"

static rt_status object_check(rt_engine *engine, const char *call, cl_int code, const char *what, uint32_t index,
                              uint64_t size, rt_error *error) {
    if (code == CL_SUCCESS) return RT_OK;
    rt_opencl_check(error, call, code, RT_NO_STEP);
    if (error != NULL) {
        snprintf(error->message, sizeof error->message, "%s: %s %u of %llu bytes: %s (%d); the device allows %llu",
                 call, what, index, (unsigned long long)size, rt_opencl_code_name(code), code,
                 (unsigned long long)engine->device.max_allocation_bytes);
    }
    return RT_OPENCL;
}

rt_status rt_storage_constant(rt_engine *engine, const void *content, uint64_t size, bool keep_in_place, cl_mem *object,
                              rt_error *error) {
    const rt_opencl_functions *cl = rt_engine_cl(engine);
    void *host = (void *)(uintptr_t)content; /* OpenCL takes no pointer to const; a read-only object is not written */
    cl_int code = -1;
    *object = NULL;
    if (keep_in_place && engine->device.unified_memory) {
        *object = cl->CreateBuffer(engine->device.context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, size, host, &code);
    }
    if (code != CL_SUCCESS) {
        *object = cl->CreateBuffer(engine->device.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, host, &code);
    }
    return object_check(engine, "clCreateBuffer", code, "weights pool", 0, size, error);
}

static rt_status scratch_create(rt_engine *engine, uint32_t index, rt_error *error) {
    rt_pool *pool = &engine->pools[index];
    cl_int code;
    engine->scratch_bytes += pool->size;
    if (!engine->has_device) {
        pool->host = rt_memory_allocate_aligned(pool->size, 1);
        return pool->host ? RT_OK : rt_error_no_memory(error, "a scratch pool");
    }
    pool->object =
        rt_engine_cl(engine)->CreateBuffer(engine->device.context, CL_MEM_READ_WRITE, pool->size, NULL, &code);
    return object_check(engine, "clCreateBuffer", code, "scratch pool", index, pool->size, error);
}

static rt_status pool_create(rt_engine *engine, uint32_t index, rt_error *error) {
    const rt_pool_record *record = &engine->plan.pools[index];
    rt_pool *pool = &engine->pools[index];
    pool->size = record->size;
    if (record->kind == RT_POOL_KIND_SCRATCH) return scratch_create(engine, index, error);
    pool->host = (uint8_t *)(uintptr_t)engine->data_bytes.data + record->data_offset;
    engine->weights_bytes += pool->size;
    if (!engine->has_device) return RT_OK;
    return rt_storage_constant(engine, pool->host, pool->size, true, &pool->object, error);
}

static rt_status image_create(rt_engine *engine, uint32_t index, rt_error *error) {
    const rt_image_record *record = &engine->plan.images[index];
    cl_image_format format = {CL_RGBA, record->format == RT_IMAGE_FORMAT_FLOAT ? CL_FLOAT : CL_HALF_FLOAT};
    cl_bitfield flags = CL_MEM_READ_WRITE;
    void *content = NULL;
    cl_int code;
    if (record->data_offset != RT_NO_DATA) {
        flags = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
        content = (uint8_t *)(uintptr_t)engine->data_bytes.data + record->data_offset;
    }
    uint64_t size = rt_image_bytes(record);
    *(content ? &engine->weights_bytes : &engine->images_bytes) += size;
    engine->images[index].object = rt_engine_cl(engine)->CreateImage2D(
        engine->device.context, flags, &format, record->width, record->height, 0, content, &code);
    return object_check(engine, "clCreateImage2D", code, "image", index, size, error);
}

rt_status rt_storage_create(rt_engine *engine, rt_error *error) {
    const rt_plan *plan = &engine->plan;
    rt_status status = RT_OK;
    engine->pools = rt_memory_allocate(plan->pool_count, sizeof *engine->pools);
    engine->images = rt_memory_allocate(plan->image_count, sizeof *engine->images);
    if (engine->pools == NULL || engine->images == NULL) return rt_error_no_memory(error, "the plan's pools");
    for (uint32_t i = 0; i < plan->pool_count && status == RT_OK; i++) status = pool_create(engine, i, error);
    for (uint32_t i = 0; i < plan->image_count && status == RT_OK; i++) status = image_create(engine, i, error);
    return status;
}

static void object_release(rt_engine *engine, cl_mem object) {
    if (object != NULL) rt_engine_cl(engine)->ReleaseMemObject(object);
}

void rt_storage_destroy(rt_engine *engine) {
    const rt_plan *plan = &engine->plan;
    for (uint32_t i = 0; engine->pools != NULL && i < plan->pool_count; i++) {
        object_release(engine, engine->pools[i].object);
        bool own = !engine->has_device && plan->pools[i].kind == RT_POOL_KIND_SCRATCH;
        if (own) rt_memory_free_aligned(engine->pools[i].host);
    }
    for (uint32_t i = 0; engine->images != NULL && i < plan->image_count; i++) {
        object_release(engine, engine->images[i].object);
    }
    rt_memory_free(engine->pools);
    rt_memory_free(engine->images);
    engine->pools = NULL;
    engine->images = NULL;
}

rt_status rt_storage_write(rt_engine *engine, uint32_t pool, uint64_t offset, const void *source, uint64_t size,
                           rt_error *error) {
    const rt_pool *target = &engine->pools[pool];
    if (size == 0) return RT_OK;
    if (!engine->has_device) {
        memcpy(target->host + offset, source, size);
        return RT_OK;
    }
    cl_int code = rt_engine_cl(engine)->EnqueueWriteBuffer(engine->device.plain, target->object, 1, offset, size,
                                                           source, 0, NULL, NULL);
    return rt_opencl_check(error, "clEnqueueWriteBuffer", code, RT_NO_STEP);
}

rt_status rt_storage_read(rt_engine *engine, uint32_t pool, uint64_t offset, void *target, uint64_t size,
                          rt_error *error) {
    const rt_pool *source = &engine->pools[pool];
    if (size == 0) return RT_OK;
    if (!engine->has_device) {
        memcpy(target, source->host + offset, size);
        return RT_OK;
    }
    cl_int code = rt_engine_cl(engine)->EnqueueReadBuffer(engine->device.plain, source->object, 1, offset, size, target,
                                                          0, NULL, NULL);
    return rt_opencl_check(error, "clEnqueueReadBuffer", code, RT_NO_STEP);
}
