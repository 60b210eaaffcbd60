/* A plan may come from anywhere, and farmrt must answer whatever is in it. So each record is compared here with all
 * that it refers to, once, and the code behind relies on it without a test. Sums and products of sizes saturate
 * (arithmetic.h): a size that overflows is one that is too large. What a kernel does with its arguments cannot be
 * checked: the device runs it. What a CPU operator does is checked by cpu_call.c, against the pools that were accepted
 * here.
 */
#include "plan_check.h"

#include <math.h>

#include "../system/arithmetic.h"
#include "crc32.h"
#include "../system/errors.h"

/* Bytes that one pool or image may ask for: above it, sums of sizes could overflow. */
#define MAX_OBJECT_BYTES (UINT64_C(1) << 40)
#define MAX_BLOCK 1024u

/* A plan while it is checked. */
typedef struct {
    const rt_plan *plan;
    const rt_bytes *data;
    rt_error *error;
} checker;

/* RT_BAD_FILE: the file, the record and what is wrong with it. */
static rt_status bad_record(const checker *check, const char *what, uint32_t index, const char *problem) {
    return rt_error_set(check->error, RT_BAD_FILE, "%s: %s %u: %s", check->plan->file.name, what, index, problem);
}

/* Whether an offset is a string of the plan. */
static bool has_string(const checker *check, uint32_t offset) {
    return rt_container_has_string(&check->plan->file, offset);
}

/* Whether an aligned range lies in the data file. */
static bool in_data(const checker *check, uint64_t offset, uint64_t size) {
    return offset % RT_ALIGNMENT_BYTES == 0 && offset <= check->data->size && size <= check->data->size - offset;
}

/* The checks below go in an order (records_check) in which each relies only on what those before it have accepted. */

static rt_status meta_check(const checker *check) {
    const rt_plan *plan = check->plan;
    if (plan->file.sections[RT_SECTION_ID_META].count != 1) return bad_record(check, "META", 0, "there must be one");
    const rt_meta_record *meta = plan->meta;
    if (meta->precision >= RT_PRECISION_COUNT) return bad_record(check, "META", 0, "unknown precision");
    if (!has_string(check, meta->model) || !has_string(check, meta->gpu_family) ||
        !has_string(check, meta->source_hash) || !has_string(check, meta->runtime_version)) {
        return bad_record(check, "META", 0, "a string is out of range");
    }
    return RT_OK;
}

/* Weights lie in the data file; scratch has no place yet, only a size that this machine can count. */
static rt_status pool_check(const checker *check, uint32_t index) {
    const rt_pool_record *pool = &check->plan->pools[index];
    if (pool->kind >= RT_POOL_KIND_COUNT) return bad_record(check, "pool", index, "unknown kind");
    if (pool->size == 0 || pool->size > MAX_OBJECT_BYTES || pool->size > SIZE_MAX) {
        return bad_record(check, "pool", index, "its size is zero or too large");
    }
    if (pool->kind == RT_POOL_KIND_WEIGHTS && !in_data(check, pool->data_offset, pool->size)) {
        return bad_record(check, "pool", index, "is not within the data file");
    }
    return RT_OK;
}

/* An image is checked as a pool is; one without data is scratch. */
static rt_status image_check(const checker *check, uint32_t index) {
    const rt_image_record *image = &check->plan->images[index];
    if (image->format >= RT_IMAGE_FORMAT_COUNT) return bad_record(check, "image", index, "unknown format");
    uint64_t size = rt_image_bytes(image);
    if (size == 0 || size > MAX_OBJECT_BYTES) return bad_record(check, "image", index, "its size is zero or too large");
    if (image->data_offset != RT_NO_DATA && !in_data(check, image->data_offset, size)) {
        return bad_record(check, "image", index, "is not within the data file");
    }
    return RT_OK;
}

/* Its strings alone: what they say is for the driver to judge. */
static rt_status program_check(const checker *check, uint32_t index) {
    const rt_program_record *program = &check->plan->programs[index];
    if (has_string(check, program->name) && has_string(check, program->source) &&
        has_string(check, program->source_hash) && has_string(check, program->options)) {
        return RT_OK;
    }
    return bad_record(check, "program", index, "a string is out of range");
}

/* Every global size is at least 1; the local sizes are all left to the driver (0), or all given and divide them. */
static bool sizes_valid(const rt_step_record *step) {
    if (step->work_dim < 1 || step->work_dim > 3) return false;
    bool chosen = step->local_size[0] != 0;
    for (uint32_t i = 0; i < step->work_dim; i++) {
        uint32_t local = step->local_size[i];
        if (step->global_size[i] == 0 || chosen != (local != 0)) return false;
        if (local != 0 && step->global_size[i] % local != 0) return false;
    }
    return true;
}

/* A CPU step has neither program nor sizes; its operator checks its arguments. */
static rt_status step_check(const checker *check, uint32_t index) {
    const rt_plan *plan = check->plan;
    const rt_step_record *step = &plan->steps[index];
    if (!has_string(check, step->name) || !has_string(check, step->op) || !has_string(check, step->kernel) ||
        !has_string(check, step->tuning_key)) {
        return bad_record(check, "step", index, "a string is out of range");
    }
    if (step->first_arg > plan->arg_count || step->arg_count > plan->arg_count - step->first_arg) {
        return bad_record(check, "step", index, "its arguments are out of range");
    }
    if (step->kind >= RT_STEP_KIND_COUNT) return bad_record(check, "step", index, "unknown kind");
    if (step->kind == RT_STEP_KIND_CPU) return RT_OK;
    if (step->program >= plan->program_count) return bad_record(check, "step", index, "its program is out of range");
    if (!sizes_valid(step)) return bad_record(check, "step", index, "its global or local size is invalid");
    return RT_OK;
}

/* Checks an argument by itself; whether a kernel takes it is for the driver or the operator to say. */
static rt_status arg_check(const checker *check, uint32_t index) {
    const rt_arg_record *arg = &check->plan->args[index];
    switch (arg->kind) {
        case RT_ARG_KIND_POOL:
            return arg->value < check->plan->pool_count ? RT_OK : bad_record(check, "argument", index, "no such pool");
        case RT_ARG_KIND_IMAGE:
            return arg->value < check->plan->image_count ? RT_OK
                                                         : bad_record(check, "argument", index, "no such image");
        case RT_ARG_KIND_INT:
        case RT_ARG_KIND_FLOAT: return RT_OK;
        case RT_ARG_KIND_LOCAL:
            return arg->value > 0 ? RT_OK : bad_record(check, "argument", index, "local memory of no bytes");
        default: return bad_record(check, "argument", index, "unknown kind");
    }
}

/* Elements from the tensor's offset to behind its last element, UINT64_MAX where the shape makes no sense. */
static uint64_t tensor_extent(const rt_tensor_record *tensor) {
    if (tensor->storage == RT_STORAGE_FLAT) return rt_tensor_element_count(tensor);
    if (tensor->rank != 4 || tensor->stride < tensor->shape[1]) return UINT64_MAX;
    uint64_t pixels = rt_product(rt_product(tensor->shape[0], tensor->shape[2]), tensor->shape[3]);
    return pixels == 0 ? 0 : rt_sum(rt_product(pixels - 1, tensor->stride), tensor->shape[1]);
}

/* A tensor of four axes is laid out by an image convention: four channels a pixel, side by side. Others are not read.
 */
static bool tensor_in_image(const rt_plan *plan, const rt_tensor_record *tensor) {
    if (tensor->place >= plan->image_count) return false;
    if (tensor->rank != 4) return true;
    const rt_image_record *image = &plan->images[tensor->place];
    uint64_t width = rt_product(rt_ceil_div(tensor->shape[1], 4), tensor->shape[3]);
    return width <= image->width && rt_product(tensor->shape[0], tensor->shape[2]) <= image->height;
}

/* Whether a tensor's elements, from its offset on, end within its pool. */
static bool tensor_in_pool(const rt_plan *plan, const rt_tensor_record *tensor) {
    if (tensor->place >= plan->pool_count) return false;
    uint64_t end = rt_product(rt_sum(tensor->offset, tensor_extent(tensor)), rt_element_bytes(tensor->element_type));
    return end <= plan->pools[tensor->place].size;
}

/* Whether values can be copied in and out as they are: what inputs, outputs and expectations need. */
static bool tensor_is_flat(const rt_plan *plan, const rt_tensor_record *tensor) {
    return tensor->storage == RT_STORAGE_FLAT && plan->pools[tensor->place].kind == RT_POOL_KIND_SCRATCH;
}

/* Inputs and outputs are copied by the host, so they must be flat and within scratch memory. */
static rt_status tensor_check(const checker *check, uint32_t index) {
    const rt_plan *plan = check->plan;
    const rt_tensor_record *tensor = &plan->tensors[index];
    if (!has_string(check, tensor->name)) return bad_record(check, "tensor", index, "a string is out of range");
    if (tensor->rank > RT_MAX_RANK) return bad_record(check, "tensor", index, "its rank is too high");
    if (tensor->storage > RT_STORAGE_IMAGE || rt_element_bytes(tensor->element_type) == 0 ||
        tensor->role >= RT_ROLE_COUNT) {
        return bad_record(check, "tensor", index, "unknown storage, type or role");
    }
    if (tensor->step != RT_NONE_U32 && tensor->step >= plan->step_count) {
        return bad_record(check, "tensor", index, "its step is out of range");
    }
    bool image = tensor->storage == RT_STORAGE_IMAGE;
    if (!(image ? tensor_in_image(plan, tensor) : tensor_in_pool(plan, tensor))) {
        return bad_record(check, "tensor", index, "is not within its memory");
    }
    if (tensor->role != RT_ROLE_INTERMEDIATE && (image || !tensor_is_flat(plan, tensor))) {
        return bad_record(check, "tensor", index, "an input or output must be flat, in scratch memory");
    }
    return RT_OK;
}

/* A packing is that of a pair of arguments, pool and offset, in a pool of weights. */
static rt_status pack_check(const checker *check, uint32_t index) {
    const rt_plan *plan = check->plan;
    const rt_pack_record *pack = &plan->packs[index];
    if (pack->step >= plan->step_count) return bad_record(check, "packing", index, "its step is out of range");
    const rt_step_record *step = &plan->steps[pack->step];
    if (step->arg_count < 2 || pack->arg > step->arg_count - 2) {
        return bad_record(check, "packing", index, "its argument is out of range");
    }
    const rt_arg_record *arg = rt_plan_step_args(plan, step) + pack->arg;
    if (arg[0].kind != RT_ARG_KIND_POOL || arg[1].kind != RT_ARG_KIND_INT ||
        plan->pools[arg[0].value].kind != RT_POOL_KIND_WEIGHTS || arg[1].value > INT32_MAX) {
        return bad_record(check, "packing", index, "its argument is no place in weights");
    }
    if (pack->groups == 0 || pack->rows == 0 || pack->cols == 0 || pack->block == 0 || pack->block > MAX_BLOCK) {
        return bad_record(check, "packing", index, "a size is zero or too large");
    }
    uint64_t end = rt_sum(arg[1].value, rt_pack_elements(pack, pack->block));
    if (rt_product(end, rt_pack_element_bytes(plan, pack)) > plan->pools[arg[0].value].size) {
        return bad_record(check, "packing", index, "exceeds its pool");
    }
    return RT_OK;
}

/* An expectation is compared on the host with what a step wrote: as many values, in a flat tensor. */
static rt_status expect_check(const checker *check, uint32_t index) {
    const rt_plan *plan = check->plan;
    const rt_expect_record *expect = &plan->expects[index];
    if (expect->step > expect->check_step || expect->check_step >= plan->step_count) {
        return bad_record(check, "expectation", index, "its steps are out of range");
    }
    if (expect->tensor >= plan->tensor_count)
        return bad_record(check, "expectation", index, "its tensor is out of range");
    const rt_tensor_record *tensor = &plan->tensors[expect->tensor];
    if (tensor->storage == RT_STORAGE_IMAGE || !tensor_is_flat(plan, tensor) ||
        tensor->element_type != RT_ELEMENT_TYPE_F32 ||
        rt_tensor_element_count(tensor) != expect->count) {
        return bad_record(check, "expectation", index, "its tensor differs");
    }
    if (!in_data(check, expect->data_offset, rt_product(expect->count, sizeof(float)))) {
        return bad_record(check, "expectation", index, "is not within the data file");
    }
    return RT_OK;
}

/* Records of one tensor follow each other, as many as its axis is long; tensors are in the order of their own records. */
static rt_status quantization_check(const checker *check, uint32_t index) {
    const rt_plan *plan = check->plan;
    const rt_quantization_record *record = &plan->quantizations[index];
    const char *what = "quantization";
    if (record->tensor >= plan->tensor_count) return bad_record(check, what, index, "its tensor is out of range");
    const rt_tensor_record *tensor = &plan->tensors[record->tensor];
    bool is_whole = record->axis == RT_NONE_U32;
    if (!is_whole && record->axis >= tensor->rank) return bad_record(check, what, index, "its axis is out of range");
    if (!(record->scale > 0 && isfinite(record->scale))) return bad_record(check, what, index, "its scale is not positive");
    if (index > 0 && record[-1].tensor > record->tensor) return bad_record(check, what, index, "is out of order");
    if (index > 0 && record[-1].tensor == record->tensor) return RT_OK; /* counted with the first */
    uint32_t count = 0;
    while (index + count < plan->quantization_count && record[count].tensor == record->tensor &&
           record[count].axis == record->axis) {
        count++;
    }
    bool more = index + count < plan->quantization_count && record[count].tensor == record->tensor;
    if (more || count != (is_whole ? 1 : tensor->shape[record->axis])) {
        return bad_record(check, what, index, "is not one for each index of its axis");
    }
    return RT_OK;
}

/* The check of the index-th record of a kind. */
typedef rt_status record_check(const checker *check, uint32_t index);

/* Checks so many records, up to the first that is bad. */
static rt_status each_check(const checker *check, uint32_t count, record_check *one) {
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < count && status == RT_OK; i++) status = one(check, i);
    return status;
}

/* All records, in the order that their checks rely on: steps refer to arguments, which refer to pools. */
static rt_status records_check(const checker *check) {
    const rt_plan *plan = check->plan;
    const struct {
        uint32_t count;
        record_check *one;
    } checks[] = {
        {plan->pool_count, pool_check}, {plan->image_count, image_check},   {plan->program_count, program_check},
        {plan->arg_count, arg_check},   {plan->step_count, step_check},     {plan->tensor_count, tensor_check},
        {plan->pack_count, pack_check}, {plan->expect_count, expect_check},
        {plan->quantization_count, quantization_check},
    };
    rt_status status = meta_check(check);
    for (size_t i = 0; i < RT_COUNT(checks) && status == RT_OK; i++) {
        status = each_check(check, checks[i].count, checks[i].one);
    }
    return status;
}

/* The data file by size and checksum: another would be other weights, in silence. */
static rt_status data_check(const checker *check) {
    const rt_meta_record *meta = check->plan->meta;
    const rt_bytes *data = check->data;
    if (meta->data_size != data->size) {
        return rt_error_set(check->error, RT_BAD_FILE, "%s: %zu bytes, its plan was made with %llu", data->name,
                            data->size, (unsigned long long)meta->data_size);
    }
    if (rt_crc32_update(0, data->data, data->size) != meta->data_crc32) {
        return rt_error_set(check->error, RT_BAD_FILE, "%s: damaged, or not the data of its plan (checksum differs)",
                            data->name);
    }
    return RT_OK;
}

rt_status rt_plan_check(const rt_plan *plan, const rt_bytes *data, rt_error *error) {
    checker check = {plan, data, error};
    rt_status status = records_check(&check);
    return status == RT_OK ? data_check(&check) : status;
}
