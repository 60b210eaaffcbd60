/* What a step writes is not in the plan: it says where the output begins. So the poison goes from there to the next
 * place that anything of the plan uses, which the step certainly need not keep.
 */
#include "trial_check.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"

static const double spoiling_error = 1e-3; /* relative to the largest expected value */

const rt_expect_record *rt_expectation_find(const rt_plan *plan, uint32_t step) {
    for (uint32_t i = 0; i < plan->expect_count; i++) {
        if (plan->expects[i].step == step) return &plan->expects[i];
    }
    return NULL;
}

/* --- poison --- */

/* A range of bytes of a pool. */
typedef struct {
    uint32_t pool;
    uint64_t start, end;
} byte_range;

/* The step's last tensor argument, which is its output; NULL for a step without any. */
static const rt_arg_record *output_argument(const rt_plan *plan, uint32_t step) {
    const rt_step_record *record = &plan->steps[step];
    const rt_arg_record *args = rt_plan_step_args(plan, record);
    for (uint32_t i = record->arg_count; i-- > 0;) {
        if (args[i].kind == RT_ARG_KIND_IMAGE) return &args[i];
        if (args[i].kind == RT_ARG_KIND_POOL && i + 1 < record->arg_count) return &args[i];
    }
    return NULL;
}

/* Whether the step also reads the place that it writes. */
static bool is_in_place(const rt_plan *plan, uint32_t step, const rt_arg_record *output) {
    const rt_arg_record *args = rt_plan_step_args(plan, &plan->steps[step]);
    for (const rt_arg_record *arg = args; arg < output; arg++) {
        if (arg->kind != output->kind || arg->value != output->value) continue;
        if (arg->kind == RT_ARG_KIND_IMAGE || arg[1].value == output[1].value) return true;
    }
    return false;
}

/* Ends the range where another tensor begins, if it begins within. Where a plan has half in it the other may have
 * elements of two or of four bytes: `least` and more. */
static void range_end_at(byte_range *range, uint64_t least, uint64_t elements) {
    for (uint64_t size = least; size <= sizeof(float); size += 2) {
        uint64_t other = rt_product(elements, size);
        if (other > range->start && other < range->end) range->end = other;
    }
}

/* What the step certainly writes: from its output's offset to the next place in the pool that the plan knows. */
static byte_range output_range(const rt_plan *plan, const rt_expect_record *expect, const rt_arg_record *output) {
    const rt_tensor_record *checked = &plan->tensors[expect->tensor];
    bool is_checked = checked->place == output->value && checked->offset == output[1].value;
    uint64_t element = is_checked ? sizeof(float) : rt_step_element_bytes(plan, expect->step);
    uint64_t least = plan->least_element_bytes;
    byte_range range = {output->value, output[1].value * element, plan->pools[output->value].size};
    /* Any pair of pool and offset of any step may be the begin of another tensor, and so may any tensor's record. */
    for (uint32_t i = 0; i + 1 < plan->arg_count; i++) {
        bool same_pool = plan->args[i].kind == RT_ARG_KIND_POOL && plan->args[i].value == output->value;
        if (same_pool && plan->args[i + 1].kind == RT_ARG_KIND_INT) range_end_at(&range, least, plan->args[i + 1].value);
    }
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const rt_tensor_record *tensor = &plan->tensors[i];
        if (tensor->storage != RT_STORAGE_IMAGE && tensor->place == output->value)
            range_end_at(&range, least, tensor->offset);
    }
    return range;
}

/* Memory of NaNs, whatever the element type (all bits set), for rt_memory_free; NULL when there is none. */
static void *nans_make(uint64_t size) {
    void *nans = rt_memory_allocate(size, 1);
    if (nans != NULL) memset(nans, 0xFF, size);
    return nans;
}

/* Fills all pixels of an image with NaN, since a step writes the whole. RT_NO_MEMORY or RT_OPENCL. */
static rt_status image_poison(const rt_parts *parts, uint32_t index, rt_error *error) {
    void *nans = nans_make(rt_image_bytes(&parts->plan->images[index]));
    if (nans == NULL) return rt_error_no_memory(error, "an image");
    rt_status status = rt_storage_write_image(parts->storage, index, nans, error);
    rt_memory_free(nans);
    return status;
}

/* Fills a range of a pool with NaN, if it has any bytes. RT_NO_MEMORY or RT_OPENCL. */
static rt_status range_poison(const rt_parts *parts, const byte_range *range, rt_error *error) {
    if (range->start >= range->end) return RT_OK;
    uint64_t size = range->end - range->start;
    void *nans = nans_make(size);
    if (nans == NULL) return rt_error_no_memory(error, "a tensor");
    rt_status status = rt_storage_write(parts->storage, range->pool, range->start, nans, size, error);
    rt_memory_free(nans);
    return status;
}

rt_status rt_output_poison(const rt_parts *parts, const rt_expect_record *expect, rt_error *error) {
    const rt_plan *plan = parts->plan;
    const rt_arg_record *output = output_argument(plan, expect->step);
    if (output == NULL || is_in_place(plan, expect->step, output)) return RT_OK;
    if (output->kind == RT_ARG_KIND_IMAGE) return image_poison(parts, output->value, error);
    if (plan->pools[output->value].kind != RT_POOL_KIND_SCRATCH || output[1].kind != RT_ARG_KIND_INT) return RT_OK;
    byte_range range = output_range(plan, expect, output);
    return range_poison(parts, &range, error);
}

/* --- comparison --- */

/* Fills the difference: the largest error and the largest expected value. What is no number is counted apart, so that
 * it cannot hide behind a maximum. */
static void values_compare(const float *found, const float *expected, uint64_t count, rt_difference *difference) {
    *difference = (rt_difference){0};
    for (uint64_t i = 0; i < count; i++) {
        double error = fabs((double)found[i] - expected[i]);
        double magnitude = fabs((double)expected[i]);
        if (!isfinite(error)) {
            difference->nan_count++;
        } else if (error > difference->max_abs_error) {
            difference->max_abs_error = error;
        }
        if (magnitude > difference->max_abs_expected) difference->max_abs_expected = magnitude;
    }
}

rt_status rt_output_compare(const rt_parts *parts, const rt_expect_record *expect, rt_difference *difference,
                            rt_error *error) {
    const rt_tensor_record *tensor = &parts->plan->tensors[expect->tensor];
    const float *expected = (const void *)(parts->plan->data + expect->data_offset);
    rt_status status = RT_OK;
    float *found = rt_memory_allocate(expect->count, sizeof *found);
    if (found == NULL) return rt_error_no_memory(error, "the output");
    if (expect->check_step > expect->step) {
        status = rt_executor_steps(parts->executor, expect->step + 1, expect->check_step, error);
    }
    if (status == RT_OK) {
        status = rt_storage_read(parts->storage, tensor->place, tensor->offset * sizeof(float), found,
                                 expect->count * sizeof(float), error);
    }
    if (status == RT_OK) values_compare(found, expected, expect->count, difference);
    rt_memory_free(found);
    return status;
}

bool rt_difference_spoils(const rt_difference *difference) {
    return difference->nan_count > 0 || difference->max_abs_error > spoiling_error * difference->max_abs_expected;
}
