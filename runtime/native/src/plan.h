/* A plan file: typed views of its records, each checked against every other section and the data file. */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include "container.h"

typedef struct {
    rt_container file;
    const rt_meta_record *meta;
    const rt_pool_record *pools;
    const rt_image_record *images;
    const rt_program_record *programs;
    const rt_step_record *steps;
    const rt_arg_record *args;
    const rt_tensor_record *tensors;
    const rt_pack_record *packs;
    const rt_expect_record *expects;
    uint32_t pool_count, image_count, program_count, step_count, arg_count, tensor_count, pack_count, expect_count;
} rt_plan;

/* Opens and checks a plan and its data file. After it, every index, offset, size and string of the plan may be used
 * without a test; the arguments of CPU steps are checked by their operators (cpu.h). */
rt_status rt_plan_open(rt_plan *plan, const rt_bytes *bytes, const rt_bytes *data, const char *name,
                       const char *data_name, rt_error *error);

const char *rt_plan_string(const rt_plan *plan, uint32_t offset);
const rt_arg_record *rt_plan_step_args(const rt_plan *plan, const rt_step_record *step);
uint64_t rt_plan_element_bytes(const rt_plan *plan); /* of activations and weights */
uint64_t rt_tensor_element_count(const rt_tensor_record *tensor);
/* The index-th tensor with a role, NULL past the last. */
const rt_tensor_record *rt_plan_tensor_by_role(const rt_plan *plan, uint32_t role, uint32_t index);
const rt_tensor_record *rt_plan_tensor_by_name(const rt_plan *plan, uint32_t role, const char *name);
bool rt_plan_needs_opencl(const rt_plan *plan);
uint64_t rt_image_bytes(const rt_image_record *image);
/* Of packed weights: a CPU step's are float32 in every plan. */
uint64_t rt_pack_element_bytes(const rt_plan *plan, const rt_pack_record *pack);
uint64_t rt_pack_elements(const rt_pack_record *pack, uint32_t block);

#endif
