/* Programs of an engine: built once for each source and options, from the compiled-kernels file where that has them. */
#ifndef RT_PROGRAM_H
#define RT_PROGRAM_H

#include "engine.h"

/* The built program of a plan's source (index) with these options; `build_ns` is 0 when it was built before. */
rt_status rt_program_get(rt_engine *engine, uint32_t source, const char *options, cl_program *program,
                         uint64_t *build_ns, rt_error *error);
void rt_programs_release(rt_engine *engine);

#endif
