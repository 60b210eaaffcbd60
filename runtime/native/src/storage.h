/* Pools and images of a plan, on the device or on the host. */
#ifndef RT_STORAGE_H
#define RT_STORAGE_H

#include "engine.h"

rt_status rt_storage_create(rt_engine *engine, rt_error *error);
void rt_storage_destroy(rt_engine *engine);

/* A read-only memory object with these contents. */
rt_status rt_storage_constant(rt_engine *engine, const void *content, uint64_t size, bool keep_in_place, cl_mem *object,
                              rt_error *error);

/* Copies between host memory and a scratch pool; blocks. */
rt_status rt_storage_write(rt_engine *engine, uint32_t pool, uint64_t offset, const void *source, uint64_t size,
                           rt_error *error);
rt_status rt_storage_read(rt_engine *engine, uint32_t pool, uint64_t offset, void *target, uint64_t size,
                          rt_error *error);

#endif
