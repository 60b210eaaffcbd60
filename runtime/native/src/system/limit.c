/* A launch is split by its measured time, not by its size: the first round of an engine is measured for it. CPU steps
 * hold no device, and not every kernel can be split: the plan says which (RT_STEP_FLAG_SPLITTABLE). */
#include "limit.h"

#include "allocation.h"
#include "errors.h"
#include "log.h"

/* Parts of one launch differ in length; aim below the limit. */
static const double margin = 0.8;
enum { MAX_PARTS = 1024 };

struct rt_limit {
    const rt_plan *plan;
    double limit_ms;
    bool pending;
    uint32_t *parts; /* one a step */
};

rt_status rt_limit_create(rt_limit **limit, const rt_plan *plan, double limit_ms, rt_error *error) {
    rt_limit *made = *limit = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "the limit of launches");
    *made = (rt_limit){.plan = plan, .limit_ms = limit_ms};
    made->pending = rt_limit_is_set(made);
    made->parts = rt_memory_allocate(plan->step_count, sizeof *made->parts);
    for (uint32_t i = 0; made->parts != NULL && i < plan->step_count; i++) made->parts[i] = 1;
    if (made->parts != NULL) return RT_OK;
    rt_limit_destroy(made);
    *limit = NULL;
    return rt_error_no_memory(error, "the limit of launches");
}

void rt_limit_destroy(rt_limit *limit) {
    if (limit == NULL) return;
    rt_memory_free(limit->parts);
    rt_memory_free(limit);
}

bool rt_limit_is_set(const rt_limit *limit) { return limit->limit_ms > 0 && rt_plan_needs_opencl(limit->plan); }

bool rt_limit_is_pending(const rt_limit *limit) { return limit->pending; }

/* Parts of which each should stay below the limit, at most MAX_PARTS. */
static uint32_t parts_for(double duration_ms, double limit_ms) {
    if (duration_ms <= limit_ms) return 1;
    double parts = duration_ms / (limit_ms * margin);
    return parts < MAX_PARTS ? (uint32_t)parts + 1 : MAX_PARTS;
}

void rt_limit_apply(rt_limit *limit, const uint64_t *duration_ns) {
    for (uint32_t i = 0; i < limit->plan->step_count; i++) {
        const rt_step_record *record = &limit->plan->steps[i];
        if (record->kind != RT_STEP_KIND_OPENCL || !(record->flags & RT_STEP_FLAG_SPLITTABLE)) continue;
        limit->parts[i] = parts_for((double)duration_ns[i] / 1e6, limit->limit_ms);
        if (limit->parts[i] == 1) continue;
        rt_log(RT_LOG_DEBUG, "step %u takes %.3f ms: split into %u parts", i, (double)duration_ns[i] / 1e6,
               limit->parts[i]);
    }
    limit->pending = false;
}

uint32_t rt_limit_parts(const rt_limit *limit, uint32_t step) { return limit->parts[step]; }
