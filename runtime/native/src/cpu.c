#include "cpu.h"

rt_status rt_cpu_call_create(rt_engine *engine, uint32_t step, rt_error *error) {
    return rt_error_set(error, RT_UNSUPPORTED, "no CPU operator '%s'",
                        rt_plan_string(&engine->plan, engine->plan.steps[step].kernel));
}

void rt_cpu_call_destroy(rt_cpu_call *call) { rt_memory_free(call); }

rt_status rt_cpu_call_run(rt_engine *engine, uint32_t step, rt_error *error) {
    (void)engine;
    (void)step;
    return rt_error_set(error, RT_CPU, "no call");
}
