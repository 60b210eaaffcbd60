/* In place of the files cpu*.c and workers.c where a build leaves the CPU operators out: a plan that needs one is
 * refused at load, and no other function here does anything.
 */
#include "../cpu/cpu.h"

#include <stddef.h>

#include "../system/errors.h"

rt_status rt_cpu_create(rt_cpu **cpu, const rt_plan *plan, const rt_storage *storage, rt_repack *repack,
                        const rt_options *options, rt_error *error) {
    (void)storage, (void)repack, (void)options;
    *cpu = NULL;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const rt_step_record *record = &plan->steps[i];
        if (record->kind != RT_STEP_KIND_CPU) continue;
        rt_error_set(error, RT_UNSUPPORTED,
                     "%s: step %u '%s' needs the CPU operator '%.80s': this farmrt was built without CPU operators",
                     plan->file.name, i, rt_plan_string(plan, record->name), rt_plan_string(plan, record->kernel));
        rt_error_set_step(error, i);
        return RT_UNSUPPORTED;
    }
    return RT_OK;
}

void rt_cpu_destroy(rt_cpu *cpu) { (void)cpu; }

void rt_cpu_enter(rt_cpu *cpu) { (void)cpu; }

void rt_cpu_leave(rt_cpu *cpu) { (void)cpu; }

rt_status rt_cpu_run(rt_cpu *cpu, uint32_t step, rt_error *error) { return (void)cpu, (void)step, (void)error, RT_OK; }

uint32_t rt_cpu_threads(const rt_cpu *cpu) { return (void)cpu, 0; }

const char *rt_cpu_isa(const rt_cpu *cpu) { return (void)cpu, ""; }

void rt_cpu_cores_text(const rt_cpu *cpu, char *text, size_t size) {
    (void)cpu;
    if (size > 0) text[0] = '\0';
}

void rt_cpu_worker_cores_text(const rt_cpu *cpu, uint32_t worker, char *text, size_t size) {
    (void)worker;
    rt_cpu_cores_text(cpu, text, size);
}
