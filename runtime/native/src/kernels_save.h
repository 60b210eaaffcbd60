/* Writes the compiled programs of an engine, with the fingerprint of its device and plan. */
#ifndef RT_KERNELS_SAVE_H
#define RT_KERNELS_SAVE_H

#include "engine.h"

rt_status rt_kernels_save(rt_engine *engine, const char *path, uint32_t *programs, uint64_t *bytes, rt_error *error);

#endif
