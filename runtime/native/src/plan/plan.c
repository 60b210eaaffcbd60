#include "plan.h"

#include <stdbool.h>
#include <string.h>

#include "../system/arithmetic.h"

const char *rt_plan_string(const rt_plan *plan, uint32_t offset) { return rt_container_string(&plan->file, offset); }

const rt_arg_record *rt_plan_step_args(const rt_plan *plan, const rt_step_record *step) {
    return plan->args + step->first_arg;
}

uint64_t rt_plan_element_bytes(const rt_plan *plan) { return plan->meta->precision == RT_PRECISION_FP32 ? 4 : 2; }

uint64_t rt_step_element_bytes(const rt_plan *plan, uint32_t step) {
    uint32_t flags = plan->steps[step].flags;
    if (flags & RT_STEP_FLAG_FLOAT) return 4;
    return flags & RT_STEP_FLAG_HALF ? 2 : rt_plan_element_bytes(plan);
}

uint64_t rt_tensor_element_count(const rt_tensor_record *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count = rt_product(count, tensor->shape[i]);
    return count;
}

uint64_t rt_element_bytes(uint32_t element_type) {
    static const uint8_t bytes[] = {
        [RT_ELEMENT_TYPE_F32] = 4,  [RT_ELEMENT_TYPE_F16] = 2, [RT_ELEMENT_TYPE_I32] = 4, [RT_ELEMENT_TYPE_F64] = 8,
        [RT_ELEMENT_TYPE_BF16] = 2, [RT_ELEMENT_TYPE_I8] = 1,  [RT_ELEMENT_TYPE_U8] = 1,  [RT_ELEMENT_TYPE_I16] = 2,
        [RT_ELEMENT_TYPE_U16] = 2,  [RT_ELEMENT_TYPE_U32] = 4, [RT_ELEMENT_TYPE_I64] = 8, [RT_ELEMENT_TYPE_U64] = 8,
        [RT_ELEMENT_TYPE_BOOL] = 1,
    };
    return element_type < RT_COUNT(bytes) ? bytes[element_type] : 0;
}

const rt_tensor_record *rt_plan_tensor_by_role(const rt_plan *plan, uint32_t role, uint32_t index) {
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        if (plan->tensors[i].role == role && index-- == 0) return &plan->tensors[i];
    }
    return NULL;
}

const rt_tensor_record *rt_plan_tensor_by_name(const rt_plan *plan, uint32_t role, const char *name) {
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const rt_tensor_record *tensor = &plan->tensors[i];
        if (tensor->role == role && strcmp(rt_plan_string(plan, tensor->name), name) == 0) return tensor;
    }
    return NULL;
}

bool rt_plan_needs_opencl(const rt_plan *plan) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind == RT_STEP_KIND_OPENCL) return true;
    }
    return plan->image_count > 0;
}

uint64_t rt_image_bytes(const rt_image_record *image) {
    static const uint64_t pixel[RT_IMAGE_FORMAT_COUNT] = {
        [RT_IMAGE_FORMAT_FLOAT] = 16, [RT_IMAGE_FORMAT_HALF] = 8, [RT_IMAGE_FORMAT_BYTES] = 4};
    return rt_product(rt_product(image->width, image->height), pixel[image->format]);
}

uint64_t rt_pack_element_bytes(const rt_plan *plan, const rt_pack_record *pack) {
    const rt_step_record *step = &plan->steps[pack->step];
    bool in_words = step->kind == RT_STEP_KIND_CPU || (step->flags & RT_STEP_FLAG_WORDS);
    return in_words ? sizeof(float) : rt_step_element_bytes(plan, pack->step);
}

uint64_t rt_pack_elements(const rt_pack_record *pack, uint32_t block) {
    uint64_t rows = rt_product(rt_ceil_div(pack->rows, block), block);
    return rt_product(rt_product(pack->groups, rows), pack->cols);
}
