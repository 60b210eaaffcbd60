/* Calls are made in the order of the steps, so that the first bad one is told. The workers start with the first. */
#include "cpu.h"

#include <stddef.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "cpu_call.h"
#include "cpu_tile.h"
#include "cpu_users.h"
#include "../system/errors.h"
#include "workers.h"

struct rt_cpu {
    const rt_plan *plan;
    const rt_storage *storage;
    rt_workers *workers; /* NULL where no step needs the CPU, as `tiles` */
    const rt_tile_kernels *tiles;
    rt_cpu_users *users;       /* NULL where the options name none */
    uint64_t work;             /* inner operations of a round */
    const rt_cpu_call **calls; /* one a step, NULL for OpenCL steps */
};

/* Starts the workers at the first step that needs them. */
static rt_status workers_need(rt_cpu *cpu, const rt_options *options, rt_error *error) {
    rt_cores cores;
    if (cpu->workers != NULL) return RT_OK;
    cpu->tiles = rt_tile_kernels_choose(options->isa);
    if (cpu->tiles == NULL) {
        return rt_error_set(error, RT_UNSUPPORTED, "this CPU has no instruction set '%s'", options->isa);
    }
    rt_status status = rt_cores_choose(&cores, options->affinity, options->cores, options->threads, error);
    return status == RT_OK ? rt_workers_start(&cpu->workers, options->threads, &cores, error) : status;
}

/* Makes the call of one step, and gives the workers the memory that it needs. RT_UNSUPPORTED where all steps so far
 * take more than max_cpu_work. A call that was made stays in the table, for rt_cpu_destroy. */
static rt_status step_add(rt_cpu *cpu, uint32_t step, rt_repack *repack, const rt_options *options, rt_error *error) {
    rt_status status = workers_need(cpu, options, error);
    if (status != RT_OK) return status;
    status = rt_cpu_call_create(&cpu->calls[step], cpu->plan, step, cpu->tiles, cpu->users, repack, error);
    if (status != RT_OK) return status;
    const rt_cpu_needs *needs = &cpu->calls[step]->needs;
    cpu->work = rt_sum(cpu->work, needs->work);
    if (options->max_cpu_work > 0 && cpu->work > options->max_cpu_work) {
        return rt_cpu_step_error(cpu->plan, step, RT_UNSUPPORTED, "more operations than max_cpu_work", error);
    }
    return rt_workers_reserve(cpu->workers, needs->scratch_bytes, error);
}

/* Makes the calls of all CPU steps. */
static rt_status steps_add(rt_cpu *cpu, rt_repack *repack, const rt_options *options, rt_error *error) {
    rt_status status = RT_OK;
    cpu->calls = rt_memory_allocate(cpu->plan->step_count, sizeof *cpu->calls);
    if (cpu->calls == NULL) return rt_error_no_memory(error, "the CPU operators");
    for (uint32_t i = 0; i < cpu->plan->step_count && status == RT_OK; i++) {
        if (cpu->plan->steps[i].kind == RT_STEP_KIND_CPU) status = step_add(cpu, i, repack, options, error);
    }
    return status;
}

rt_status rt_cpu_create(rt_cpu **cpu, const rt_plan *plan, const rt_storage *storage, rt_repack *repack,
                        const rt_options *options, rt_error *error) {
    rt_cpu *made = *cpu = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "the CPU operators");
    *made = (rt_cpu){.plan = plan, .storage = storage};
    rt_status status = rt_cpu_users_open(&made->users, options, error);
    if (status == RT_OK) status = steps_add(made, repack, options, error);
    if (status != RT_OK) {
        rt_cpu_destroy(made);
        *cpu = NULL;
    }
    return status;
}

void rt_cpu_destroy(rt_cpu *cpu) {
    if (cpu == NULL) return;
    rt_workers_stop(cpu->workers);
    for (uint32_t i = 0; cpu->calls != NULL && i < cpu->plan->step_count; i++) rt_cpu_call_destroy(cpu->calls[i]);
    rt_memory_free(cpu->calls);
    rt_cpu_users_close(cpu->users);
    rt_memory_free(cpu);
}

void rt_cpu_enter(rt_cpu *cpu) { rt_workers_enter(cpu->workers); }

void rt_cpu_leave(rt_cpu *cpu) { rt_workers_leave(cpu->workers); }

rt_status rt_cpu_run(rt_cpu *cpu, uint32_t step, rt_error *error) {
    const char *fault = rt_cpu_call_run(cpu->calls[step], cpu->storage, cpu->workers);
    return fault == NULL ? RT_OK : rt_cpu_step_error(cpu->plan, step, RT_CPU, fault, error);
}

uint32_t rt_cpu_threads(const rt_cpu *cpu) { return cpu->workers ? rt_workers_count(cpu->workers) : 0; }

void rt_cpu_cores_text(const rt_cpu *cpu, char *text, size_t size) {
    rt_cores_text(&rt_workers_cores(cpu->workers)->set, text, size);
}

void rt_cpu_worker_cores_text(const rt_cpu *cpu, uint32_t worker, char *text, size_t size) {
    rt_workers_cores_text(cpu->workers, worker, text, size);
}

const char *rt_cpu_isa(const rt_cpu *cpu) { return cpu->tiles ? cpu->tiles->name : ""; }
