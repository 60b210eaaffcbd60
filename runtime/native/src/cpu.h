/* CPU operators: the same names and argument lists as the OpenCL kernels, float32. */
#ifndef RT_CPU_H
#define RT_CPU_H

#include "engine.h"

/* Makes the call of a CPU step, and checks that all it will access lies within its pools. */
rt_status rt_cpu_call_create(rt_engine *engine, uint32_t step, rt_error *error);
void rt_cpu_call_destroy(rt_cpu_call *call);
/* Runs it; the pools that it names have host addresses. */
void rt_cpu_call_run(rt_engine *engine, uint32_t step);

/* Instruction set of the innermost loops, empty where no step needs the CPU. */
const char *rt_cpu_isa(const rt_engine *engine);

#endif
