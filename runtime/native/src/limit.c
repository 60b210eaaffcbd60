#include "limit.h"

/* Parts of one launch differ in length; aim below the limit. */
static const double margin = 0.8;
enum { MAX_PARTS = 1024 };

bool rt_limit_is_pending(const rt_engine *engine) {
    return engine->has_device && engine->options.limit_kernel_ms > 0 && !engine->limited;
}

static uint32_t parts_for(double duration_ms, double limit_ms) {
    if (duration_ms <= limit_ms) return 1;
    double parts = duration_ms / (limit_ms * margin);
    return parts < MAX_PARTS ? (uint32_t)parts + 1 : MAX_PARTS;
}

void rt_limit_apply(rt_engine *engine, const rt_profile *profile) {
    for (uint32_t i = 0; i < engine->plan.step_count; i++) {
        const rt_step_record *record = &engine->plan.steps[i];
        if (record->kind != RT_STEP_KIND_OPENCL || !(record->flags & RT_STEP_FLAG_SPLITTABLE)) continue;
        engine->steps[i].parts = parts_for((double)profile->duration_ns[i] / 1e6, engine->options.limit_kernel_ms);
    }
    engine->limited = true;
}
