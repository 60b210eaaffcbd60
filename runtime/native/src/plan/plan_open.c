/* The plan is read and the data mapped: the one is small and decides what is done, the other is large. */
#include "plan_open.h"

#include "../system/allocation.h"
#include "../system/errors.h"
#include "plan_check.h"

/* What an rt_plan that is handed out begins: with the files that it points into. */
typedef struct {
    rt_plan plan;
    const rt_bytes *file, *data;
} opened;

/* Points at the records; a section that the file does not have is an empty table. */
static void sections_view(rt_plan *plan) {
    const rt_section *sections = plan->file.sections;
    plan->meta = sections[RT_SECTION_ID_META].records;
    plan->pools = sections[RT_SECTION_ID_POOL].records;
    plan->images = sections[RT_SECTION_ID_IMAGE].records;
    plan->programs = sections[RT_SECTION_ID_PROGRAM].records;
    plan->steps = sections[RT_SECTION_ID_STEP].records;
    plan->args = sections[RT_SECTION_ID_ARG].records;
    plan->tensors = sections[RT_SECTION_ID_TENSOR].records;
    plan->packs = sections[RT_SECTION_ID_PACK].records;
    plan->expects = sections[RT_SECTION_ID_EXPECT].records;
    plan->quantizations = sections[RT_SECTION_ID_QUANTIZATION].records;
    plan->pool_count = sections[RT_SECTION_ID_POOL].count;
    plan->image_count = sections[RT_SECTION_ID_IMAGE].count;
    plan->program_count = sections[RT_SECTION_ID_PROGRAM].count;
    plan->step_count = sections[RT_SECTION_ID_STEP].count;
    plan->arg_count = sections[RT_SECTION_ID_ARG].count;
    plan->tensor_count = sections[RT_SECTION_ID_TENSOR].count;
    plan->pack_count = sections[RT_SECTION_ID_PACK].count;
    plan->expect_count = sections[RT_SECTION_ID_EXPECT].count;
    plan->quantization_count = sections[RT_SECTION_ID_QUANTIZATION].count;
}

/* The least size of an element of float type that any step writes. */
static uint64_t least_element_bytes(const rt_plan *plan) {
    uint64_t least = rt_plan_element_bytes(plan);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        uint64_t bytes = rt_step_element_bytes(plan, i);
        if (bytes < least) least = bytes;
    }
    return least;
}

rt_status rt_plan_open(const rt_plan **plan, const rt_source *file, const rt_source *data, rt_error *error) {
    opened *made = rt_memory_allocate(1, sizeof *made);
    *plan = NULL;
    if (made == NULL) return rt_error_no_memory(error, "a plan");
    rt_status status = rt_bytes_open(&made->file, file, RT_READING_COPY, error);
    if (status == RT_OK) status = rt_bytes_open(&made->data, data, RT_READING_MAP, error);
    if (status == RT_OK) status = rt_container_open(&made->plan.file, made->file, RT_PLAN_MAGIC, error);
    if (status == RT_OK) {
        sections_view(&made->plan);
        made->plan.data = made->data->data;
        status = rt_plan_check(&made->plan, made->data, error);
    }
    if (status == RT_OK) {
        made->plan.least_element_bytes = least_element_bytes(&made->plan);
        *plan = &made->plan;
    } else {
        rt_plan_close(&made->plan);
    }
    return status;
}

void rt_plan_close(const rt_plan *plan) {
    opened *own = (opened *)(uintptr_t)plan; /* the plan is its first member */
    if (own == NULL) return;
    rt_bytes_close(own->data);
    rt_bytes_close(own->file);
    rt_memory_free(own);
}
