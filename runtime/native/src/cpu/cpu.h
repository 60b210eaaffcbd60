/* The plan's CPU steps.
 *
 * State: an rt_cpu, with a call for each CPU step, and the workers that they share; without CPU steps it has neither,
 * and starts no thread. One thread at a time, and never while another runs a step.
 */
#ifndef RT_CPU_H
#define RT_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../plan/plan.h"
#include "../plan/repack.h"
#include "../plan/storage.h"

typedef struct rt_cpu rt_cpu;

/* Makes every CPU step's call, and starts the workers, for rt_cpu_destroy. Of the options it reads threads, affinity,
 * cores, isa, max_cpu_work and the custom operators. RT_UNSUPPORTED (no such operator, instruction set or cores, too much work), RT_BAD_FILE, RT_NO_MEMORY;
 * `*cpu` is NULL then. */
rt_status rt_cpu_create(rt_cpu **cpu, const rt_plan *plan, const rt_storage *storage, rt_repack *repack,
                        const rt_options *options, rt_error *error);

/* Ends the workers and releases the calls; NULL is ignored. */
void rt_cpu_destroy(rt_cpu *cpu);

/* Around steps that run one after another: the calling thread stays on the cores that the affinity names. */
void rt_cpu_enter(rt_cpu *cpu);
void rt_cpu_leave(rt_cpu *cpu);

/* Runs a CPU step and waits; the scratch pools that it names have host addresses. RT_CPU where the values that it was
 * given make no sense. */
rt_status rt_cpu_run(rt_cpu *cpu, uint32_t step, rt_error *error);

/* Threads that share the work, 0 where no step needs them, and the instruction set of the innermost loops. */
uint32_t rt_cpu_threads(const rt_cpu *cpu);
const char *rt_cpu_isa(const rt_cpu *cpu);

/* The cores that were chosen, and those that the kernel lets a worker run on while it works, both as lists (`0-3,6`);
 * only where there are threads, and not within a run. */
void rt_cpu_cores_text(const rt_cpu *cpu, char *text, size_t size);
void rt_cpu_worker_cores_text(const rt_cpu *cpu, uint32_t worker, char *text, size_t size);

#endif
