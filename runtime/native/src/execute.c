#include "execute.h"

#include "cpu.h"
#include "launch.h"
#include "limit.h"

typedef struct {
    rt_engine *engine;
    cl_command_queue queue;
    rt_profile *profile;
    rt_error *error;
} round_state;

static rt_status part_enqueue(rt_engine *engine, cl_command_queue queue, uint32_t step, cl_kernel kernel,
                              const rt_launch *launch, const size_t *offset, const size_t *size, rt_profile *profile,
                              rt_error *error) {
    size_t local[3];
    for (int i = 0; i < 3; i++) local[i] = launch->local_size[i];
    cl_int code = rt_engine_cl(engine)->EnqueueNDRangeKernel(queue, kernel, launch->work_dim, offset, size,
                                                             local[0] ? local : NULL, 0, NULL,
                                                             profile ? rt_profile_next(profile, step) : NULL);
    return rt_opencl_check(error, "clEnqueueNDRangeKernel", code, (int32_t)step);
}

/* The dimension with the most work groups, along which a launch is split. */
static uint32_t split_dimension(const rt_launch *launch) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < launch->work_dim; i++) {
        uint32_t local = launch->local_size[i] ? launch->local_size[i] : 1;
        uint32_t best_local = launch->local_size[best] ? launch->local_size[best] : 1;
        if (launch->global_size[i] / local > launch->global_size[best] / best_local) best = i;
    }
    return best;
}

rt_status rt_launch_enqueue(rt_engine *engine, cl_command_queue queue, uint32_t step, cl_kernel kernel,
                            const rt_launch *launch, uint32_t parts, rt_profile *profile, rt_error *error) {
    size_t offset[3] = {0, 0, 0};
    size_t size[3];
    for (int i = 0; i < 3; i++) size[i] = launch->global_size[i];
    if (parts <= 1) return part_enqueue(engine, queue, step, kernel, launch, NULL, size, profile, error);
    uint32_t dimension = split_dimension(launch);
    size_t local = launch->local_size[dimension] ? launch->local_size[dimension] : 1;
    size_t whole = size[dimension];
    size_t chunk = (size_t)rt_ceil_div(rt_ceil_div(whole, local), parts) * local;
    rt_status status = RT_OK;
    for (size_t start = 0; start < whole && status == RT_OK; start += chunk) {
        offset[dimension] = start;
        size[dimension] = chunk < whole - start ? chunk : whole - start;
        status = part_enqueue(engine, queue, step, kernel, launch, offset, size, profile, error);
        rt_engine_cl(engine)->Flush(queue); /* others may use the device between the parts */
    }
    return status;
}

static rt_status opencl_step(const round_state *round, uint32_t index) {
    rt_engine *engine = round->engine;
    rt_step *step = &engine->steps[index];
    rt_status status = rt_step_prepare(engine, index, round->error);
    if (status != RT_OK) return status;
    return rt_launch_enqueue(engine, round->queue, index, step->kernel, &step->launch, step->parts, round->profile,
                             round->error);
}

static bool step_uses_pool(const rt_plan *plan, uint32_t step, uint32_t pool) {
    const rt_step_record *record = &plan->steps[step];
    const rt_arg_record *args = rt_plan_step_args(plan, record);
    for (uint32_t i = 0; i < record->arg_count; i++) {
        if (args[i].kind == RT_ARG_KIND_POOL && args[i].value == pool) return true;
    }
    return false;
}

static bool run_uses_pool(const rt_plan *plan, uint32_t first, uint32_t last, uint32_t pool) {
    for (uint32_t i = first; i <= last; i++) {
        if (step_uses_pool(plan, i, pool)) return true;
    }
    return false;
}

static rt_status pool_map(const round_state *round, uint32_t index, uint32_t step) {
    rt_pool *pool = &round->engine->pools[index];
    cl_int code;
    cl_event event = NULL;
    pool->host = rt_engine_cl(round->engine)
                     ->EnqueueMapBuffer(round->queue, pool->object, 1, CL_MAP_READ | CL_MAP_WRITE, 0, pool->size, 0,
                                        NULL, round->profile ? &event : NULL, &code);
    if (code != CL_SUCCESS) pool->host = NULL;
    rt_status status = rt_opencl_check(round->error, "clEnqueueMapBuffer", code, (int32_t)step);
    if (status == RT_OK && event != NULL) status = rt_profile_align(round->profile, event, round->error);
    return status;
}

static rt_status pool_unmap(const round_state *round, uint32_t index, uint32_t step) {
    rt_pool *pool = &round->engine->pools[index];
    if (pool->host == NULL) return RT_OK;
    cl_int code =
        rt_engine_cl(round->engine)->EnqueueUnmapMemObject(round->queue, pool->object, pool->host, 0, NULL, NULL);
    pool->host = NULL;
    return rt_opencl_check(round->error, "clEnqueueUnmapMemObject", code, (int32_t)step);
}

static void cpu_step(const round_state *round, uint32_t index) {
    uint64_t start_ns = rt_clock_ns();
    rt_watchdog_arm(round->engine->watchdog, (int32_t)index);
    rt_cpu_call_run(round->engine, index);
    if (round->profile != NULL) rt_profile_host_step(round->profile, index, start_ns, rt_clock_ns());
}

/* CPU steps in a row, with the pools that they touch mapped around them. */
static rt_status cpu_steps(const round_state *round, uint32_t first, uint32_t last) {
    rt_engine *engine = round->engine;
    const rt_plan *plan = &engine->plan;
    rt_status status = RT_OK;
    for (uint32_t i = 0; engine->has_device && i < plan->pool_count && status == RT_OK; i++) {
        bool needed = plan->pools[i].kind == RT_POOL_KIND_SCRATCH && run_uses_pool(plan, first, last, i);
        if (needed) status = pool_map(round, i, first);
    }
    rt_workers_enter(engine->workers);
    for (uint32_t i = first; i <= last && status == RT_OK; i++) cpu_step(round, i);
    rt_workers_leave(engine->workers);
    for (uint32_t i = 0; engine->has_device && i < plan->pool_count; i++) {
        if (plan->pools[i].kind != RT_POOL_KIND_SCRATCH) continue;
        rt_status unmapped = pool_unmap(round, i, last);
        if (status == RT_OK) status = unmapped;
    }
    return status;
}

static uint32_t last_cpu_step(const rt_plan *plan, uint32_t first, uint32_t last) {
    uint32_t end = first;
    while (end < last && plan->steps[end + 1].kind == RT_STEP_KIND_CPU) end++;
    return end;
}

/* Steps `first` to `last`; the device is idle when this returns, whatever it returns. */
static rt_status steps_execute(const round_state *round, uint32_t first, uint32_t last) {
    rt_engine *engine = round->engine;
    rt_status status = RT_OK;
    for (uint32_t i = first; i <= last && status == RT_OK; i++) {
        rt_watchdog_arm(engine->watchdog, (int32_t)i); /* some drivers compile when a launch is enqueued */
        if (engine->plan.steps[i].kind == RT_STEP_KIND_OPENCL) {
            status = opencl_step(round, i);
            continue;
        }
        uint32_t end = last_cpu_step(&engine->plan, i, last);
        status = cpu_steps(round, i, end);
        i = end;
    }
    if (engine->has_device) {
        rt_watchdog_arm(engine->watchdog, first == last ? (int32_t)first : RT_NO_STEP);
        cl_int code = rt_engine_cl(engine)->Finish(round->queue);
        if (status == RT_OK) status = rt_opencl_check(round->error, "clFinish", code, RT_NO_STEP);
    }
    rt_watchdog_disarm(engine->watchdog);
    return status;
}

rt_status rt_steps_run(rt_engine *engine, uint32_t first, uint32_t last, rt_error *error) {
    round_state round = {engine, engine->device.plain, NULL, error};
    return steps_execute(&round, first, last);
}

static rt_status round_run(rt_engine *engine, rt_profile *profile, uint64_t *wall_ns, rt_error *error) {
    round_state round = {engine, profile ? engine->device.profiling : engine->device.plain, profile, error};
    rt_status status = RT_OK;
    if (profile != NULL) rt_profile_reset(profile);
    uint64_t start_ns = rt_clock_ns();
    if (engine->plan.step_count > 0) status = steps_execute(&round, 0, engine->plan.step_count - 1);
    *wall_ns = rt_clock_ns() - start_ns;
    if (profile != NULL) {
        rt_status collected = rt_profile_collect(profile, status == RT_OK ? error : NULL);
        if (status == RT_OK) status = collected;
    }
    engine->rounds += status == RT_OK;
    return status;
}

/* A round that is measured for the limit of launches. */
static rt_status limiting_round_run(rt_engine *engine, rt_profile *profile, uint64_t *wall_ns, rt_error *error) {
    rt_profile own;
    if (profile == NULL) {
        rt_status status = rt_profile_create(&own, engine, error);
        if (status != RT_OK) return status;
    }
    rt_profile *used = profile ? profile : &own;
    rt_status status = round_run(engine, used, wall_ns, error);
    if (status == RT_OK) rt_limit_apply(engine, used);
    if (profile == NULL) rt_profile_destroy(&own);
    return status;
}

rt_status rt_round_run(rt_engine *engine, rt_profile *profile, uint64_t *wall_ns, rt_error *error) {
    if (rt_limit_is_pending(engine)) return limiting_round_run(engine, profile, wall_ns, error);
    return round_run(engine, profile, wall_ns, error);
}
