/* The parts of a loaded plan, for the files above the C API: commands, measurements, trials.
 *
 * farmrt.c makes them, in this order, and releases them. Each part's state is written by its own functions alone; from
 * here they can be asked and told, not changed behind their back.
 */
#ifndef RT_PARTS_H
#define RT_PARTS_H

#include "../../include/farmrt.h"
#include "../cpu/cpu.h"
#include "../opencl/device.h"
#include "execute.h"
#include "../opencl/kernels.h"
#include "../system/limit.h"
#include "../plan/plan.h"
#include "../opencl/programs.h"
#include "../plan/repack.h"
#include "../opencl/steps.h"
#include "../plan/storage.h"
#include "../opencl/tuned.h"
#include "watchdog.h"

/* What a loaded plan is made of. Written by farmrt.c alone. */
typedef struct {
    const char *soc; /* "" matches any */
    const rt_plan *plan;
    const rt_device *device; /* NULL where no step needs OpenCL */
    rt_tuned *tuned;
    rt_kernels *kernels;
    rt_storage *storage;
    rt_repack *repack;
    rt_programs *programs;
    rt_watchdog *watchdog; /* NULL: nobody watches */
    rt_steps *steps;
    rt_cpu *cpu;
    rt_limit *limit;
    rt_executor *executor;
} rt_parts;

/* Those of an engine; they live as long as it does. */
const rt_parts *rt_engine_parts(const rt_engine *engine);

#endif
