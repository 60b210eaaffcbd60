/* A plan: typed views of a plan file's records, and what follows from one record or two.
 *
 * Whoever holds a `const rt_plan *` holds one that plan_open.c has opened and plan_check.c has checked: every index,
 * offset, size and string of its records may be used without a test. It never changes, so any thread may read it.
 */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "container.h"
#include "format.h"

/* Tables of records, in the order of the file. Written by plan_open.c alone. */
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
    const rt_quantization_record *quantizations;
    uint32_t pool_count, image_count, program_count, step_count, arg_count, tensor_count, pack_count, expect_count,
        quantization_count;
    const uint8_t *data; /* the data file, meta->data_size bytes: weights and expectations */
    uint64_t least_element_bytes; /* of an element of float type that any step writes */
} rt_plan;

/* The string at an offset of one of the plan's records; it lives as long as the plan. */
const char *rt_plan_string(const rt_plan *plan, uint32_t offset);

/* The first of a step's `arg_count` arguments. */
const rt_arg_record *rt_plan_step_args(const rt_plan *plan, const rt_step_record *step);

/* Bytes of an element of activations and of weights that OpenCL steps read, where the step does not say otherwise. */
uint64_t rt_plan_element_bytes(const rt_plan *plan);

/* Bytes of an element of float type that a step writes, and of its weights. */
uint64_t rt_step_element_bytes(const rt_plan *plan, uint32_t step);

/* Whether any step or image needs a device. */
bool rt_plan_needs_opencl(const rt_plan *plan);

/* The index-th tensor with a role (RT_ROLE_...), or the one of a name; NULL where there is none. */
const rt_tensor_record *rt_plan_tensor_by_role(const rt_plan *plan, uint32_t role, uint32_t index);
const rt_tensor_record *rt_plan_tensor_by_name(const rt_plan *plan, uint32_t role, const char *name);

/* Elements that a tensor's shape has, 1 for a scalar; UINT64_MAX where they overflow. */
uint64_t rt_tensor_element_count(const rt_tensor_record *tensor);

/* Bytes of an element of an element type (RT_ELEMENT_TYPE_...), 0 for an unknown one. */
uint64_t rt_element_bytes(uint32_t element_type);

/* Bytes of an image's pixels, UINT64_MAX where they overflow. */
uint64_t rt_image_bytes(const rt_image_record *image);

/* Bytes of an element of packed weights: a CPU step's are float32 in every plan, words of integers as large. */
uint64_t rt_pack_element_bytes(const rt_plan *plan, const rt_pack_record *pack);

/* Elements of packed weights in blocks of `block` rows, the zeros that fill the last block included; UINT64_MAX where
 * they overflow. */
uint64_t rt_pack_elements(const rt_pack_record *pack, uint32_t block);

#endif
