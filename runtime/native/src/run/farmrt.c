/* The C API (include/farmrt.h, which has the contracts): makes the parts of a plan, and passes calls on to them.
 *
 * State: the rt_engine. What a part needs of the options it is given when it is made; they are not kept.
 */
#include "../../include/farmrt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"
#include "../opencl/kernels_save.h"
#include "parts.h"
#include "../plan/plan_open.h"

struct rt_engine {
    rt_parts parts;
};

const char *rt_version(void) { return RT_VERSION; }

const char *rt_status_name(rt_status status) {
    static const char *const names[] = {"ok",     "bad_command", "bad_file", "no_opencl", "unsupported", "build_failed",
                                        "opencl", "cpu",         "hang",     "io",        "no_memory"};
    return (size_t)status < RT_COUNT(names) ? names[status] : "unknown";
}

/* The public types are the plan format's, by number. */
_Static_assert((int)RT_FLOAT32 == RT_ELEMENT_TYPE_F32 && (int)RT_FLOAT16 == RT_ELEMENT_TYPE_F16, "types");
_Static_assert((int)RT_INT32 == RT_ELEMENT_TYPE_I32 && (int)RT_FLOAT64 == RT_ELEMENT_TYPE_F64, "types");
_Static_assert((int)RT_BFLOAT16 == RT_ELEMENT_TYPE_BF16 && (int)RT_INT8 == RT_ELEMENT_TYPE_I8, "types");
_Static_assert((int)RT_UINT8 == RT_ELEMENT_TYPE_U8 && (int)RT_INT16 == RT_ELEMENT_TYPE_I16, "types");
_Static_assert((int)RT_UINT16 == RT_ELEMENT_TYPE_U16 && (int)RT_UINT32 == RT_ELEMENT_TYPE_U32, "types");
_Static_assert((int)RT_INT64 == RT_ELEMENT_TYPE_I64 && (int)RT_UINT64 == RT_ELEMENT_TYPE_U64, "types");
_Static_assert((int)RT_BOOL == RT_ELEMENT_TYPE_BOOL, "types");

const char *rt_type_name(rt_type type) {
    static const char *const names[] = {"float32", "float16", "int32",  "float64", "bfloat16", "int8", "uint8",
                                        "int16",   "uint16",  "uint32", "int64",   "uint64",   "bool"};
    return (size_t)type < RT_COUNT(names) ? names[type] : "unknown";
}

/* --- loading: each of these makes one part from the options and the parts before it --- */

/* On failure what it has made so far stays with the parts: parts_release takes them however far loading came. */
typedef rt_status part_load(rt_parts *parts, const rt_options *options, rt_error *error);

/* A copy, since the options' text need not outlive the call. */
static rt_status soc_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    parts->soc = rt_memory_copy_string(options->soc ? options->soc : "");
    return parts->soc ? RT_OK : rt_error_no_memory(error, "names");
}

/* Opens the plan with its data, neither of which may be missing (RT_BAD_COMMAND). */
static rt_status plan_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    const rt_source plan = {options->plan_path, options->plan_bytes, options->plan_size, "plan"};
    const rt_source data = {options->data_path, options->data_bytes, options->data_size, "data"};
    if (!rt_source_is_given(&plan) || !rt_source_is_given(&data)) {
        return rt_error_set(error, RT_BAD_COMMAND, "a plan and its data are needed");
    }
    return rt_plan_open(&parts->plan, &plan, &data, error);
}

/* Opens a device only for a plan that needs one: a CPU plan runs where there is no OpenCL. */
static rt_status device_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    rt_opencl opencl;
    if (!rt_plan_needs_opencl(parts->plan)) return RT_OK;
    rt_status status = rt_opencl_open(&opencl, options->opencl_library, error);
    if (status != RT_OK) return status;
    const rt_device_use use = {options->perf_hint, options->priority_hint, options->flush_every,
                               options->zero_copy != 0, options->host_times != 0, options->record != 0};
    return rt_device_open(&parts->device, &opencl, &use, error);
}

/* A source that is not given, or fits nothing, makes the part too: one without entries. So with the kernels. */
static rt_status tuned_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    const rt_source source = {options->tuned_path, options->tuned_bytes, options->tuned_size, "tuned parameters"};
    return rt_tuned_open(&parts->tuned, &source, parts->plan, parts->device, parts->soc, error);
}

static rt_status kernels_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    const rt_source source = {options->kernels_path, options->kernels_bytes, options->kernels_size, "compiled kernels"};
    return rt_kernels_open(&parts->kernels, &source, parts->plan, parts->device, parts->soc, error);
}

/* Pools and images, and the table of repacked weights, still empty. */
static rt_status memory_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    (void)options;
    rt_status status = rt_storage_create(&parts->storage, parts->plan, parts->device, error);
    return status == RT_OK ? rt_repack_create(&parts->repack, parts->plan, parts->device, error) : status;
}

/* None where nobody would hear it. */
static rt_status watchdog_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    if (options->watchdog_ms == 0 || options->on_hang == NULL) return RT_OK;
    parts->watchdog = rt_watchdog_start(options->watchdog_ms, options->on_hang, options->on_hang_user);
    return parts->watchdog ? RT_OK : rt_error_no_memory(error, "the watchdog's thread");
}

static rt_status cpu_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    return rt_cpu_create(&parts->cpu, parts->plan, parts->storage, parts->repack, options, error);
}

/* Makes every kernel too, unless that is left to the first run. */
static rt_status steps_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    rt_status status = rt_programs_create(&parts->programs, parts->plan, parts->device, parts->kernels, error);
    if (status != RT_OK) return status;
    const rt_step_parts used = {parts->plan,    parts->device, parts->programs,
                                parts->storage, parts->repack, parts->tuned};
    status = rt_steps_create(&parts->steps, &used, error);
    for (uint32_t i = 0; i < parts->plan->step_count && status == RT_OK && !options->lazy; i++) {
        status = rt_steps_prepare(parts->steps, i, error);
    }
    return status;
}

/* What rounds are run by. */
static rt_status executor_load(rt_parts *parts, const rt_options *options, rt_error *error) {
    rt_status status = rt_limit_create(&parts->limit, parts->plan, options->limit_kernel_ms, error);
    if (status != RT_OK) return status;
    const rt_executor_parts used = {parts->plan, parts->device, parts->storage, parts->steps,
                                    parts->cpu,  parts->limit,  parts->watchdog,
                                    options->on_progress, options->on_progress_user};
    return rt_executor_create(&parts->executor, &used, error);
}

rt_status rt_engine_create(const rt_options *options, rt_engine **engine, rt_error *error) {
    static part_load *const loads[] = {soc_load,    plan_load,     device_load, tuned_load, kernels_load,
                                       memory_load, watchdog_load, cpu_load,    steps_load, executor_load};
    rt_status status = RT_OK;
    rt_engine *made = *engine = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "an engine");
    for (size_t i = 0; i < RT_COUNT(loads) && status == RT_OK; i++) status = loads[i](&made->parts, options, error);
    if (status != RT_OK) {
        rt_engine_destroy(made);
        *engine = NULL;
    }
    return status;
}

/* What uses a part goes before it; parts that were never made are NULL. */
static void parts_release(const rt_parts *parts) {
    rt_watchdog_stop(parts->watchdog);
    rt_executor_destroy(parts->executor);
    rt_limit_destroy(parts->limit);
    rt_steps_destroy(parts->steps);
    rt_programs_destroy(parts->programs);
    rt_cpu_destroy(parts->cpu);
    rt_repack_destroy(parts->repack);
    rt_storage_destroy(parts->storage);
    rt_kernels_close(parts->kernels);
    rt_tuned_close(parts->tuned);
    rt_device_close(parts->device);
    rt_plan_close(parts->plan);
    rt_memory_free((char *)(uintptr_t)parts->soc);
}

void rt_engine_destroy(rt_engine *engine) {
    if (engine == NULL) return;
    parts_release(&engine->parts);
    rt_memory_free(engine);
}

const rt_parts *rt_engine_parts(const rt_engine *engine) { return &engine->parts; }

/* --- tensors --- */

/* Describes the index-th tensor with a role; name and shape lie in the plan. RT_BAD_COMMAND, and `info` is as it was,
 * where there is none. */
static rt_status tensor_info(const rt_engine *engine, uint32_t role, uint32_t index, rt_tensor_info *info) {
    const rt_tensor_record *tensor = rt_plan_tensor_by_role(engine->parts.plan, role, index);
    if (tensor == NULL) return RT_BAD_COMMAND;
    uint64_t count = rt_tensor_element_count(tensor);
    *info = (rt_tensor_info){.name = rt_plan_string(engine->parts.plan, tensor->name),
                             .shape = tensor->shape,
                             .rank = tensor->rank,
                             .type = (rt_type)tensor->element_type,
                             .count = (size_t)count,
                             .bytes = (size_t)(count * rt_element_bytes(tensor->element_type))};
    return RT_OK;
}

rt_status rt_engine_input_info(const rt_engine *engine, uint32_t index, rt_tensor_info *info) {
    return tensor_info(engine, RT_ROLE_INPUT, index, info);
}

rt_status rt_engine_output_info(const rt_engine *engine, uint32_t index, rt_tensor_info *info) {
    return tensor_info(engine, RT_ROLE_OUTPUT, index, info);
}

rt_status rt_engine_quantization(const rt_engine *engine, const char *name, uint32_t index, rt_quantization *found) {
    const rt_plan *plan = engine->parts.plan;
    const rt_tensor_record *tensor = rt_plan_tensor_by_name(plan, RT_ROLE_INPUT, name);
    if (tensor == NULL) tensor = rt_plan_tensor_by_name(plan, RT_ROLE_OUTPUT, name);
    for (uint32_t i = 0; tensor != NULL && i < plan->quantization_count; i++) {
        const rt_quantization_record *record = &plan->quantizations[i];
        if (record->tensor != (uint32_t)(tensor - plan->tensors) || index-- > 0) continue;
        int32_t axis = record->axis == RT_NONE_U32 ? -1 : (int32_t)record->axis;
        *found = (rt_quantization){record->scale, record->zero_point, axis};
        return RT_OK;
    }
    return RT_BAD_COMMAND;
}

/* The input or output of a name, whose elements take as many bytes as the caller has; else RT_BAD_COMMAND. */
static rt_status tensor_find(const rt_engine *engine, uint32_t role, const char *name, size_t bytes,
                             const rt_tensor_record **tensor, rt_error *error) {
    const char *kind = role == RT_ROLE_INPUT ? "input" : "output";
    *tensor = rt_plan_tensor_by_name(engine->parts.plan, role, name);
    if (*tensor == NULL) return rt_error_set(error, RT_BAD_COMMAND, "the plan has no %s '%s'", kind, name);
    uint64_t count = rt_tensor_element_count(*tensor);
    uint64_t expected = count * rt_element_bytes((*tensor)->element_type);
    if (expected == bytes) return RT_OK;
    return rt_error_set(error, RT_BAD_COMMAND, "%s '%s' has %llu bytes (%llu elements of %s), not %zu", kind, name,
                        (unsigned long long)expected, (unsigned long long)count,
                        rt_type_name((rt_type)(*tensor)->element_type), bytes);
}

/* Where a tensor's elements begin in its place. */
static uint64_t byte_offset(const rt_tensor_record *tensor) {
    return tensor->offset * rt_element_bytes(tensor->element_type);
}

rt_status rt_engine_input(rt_engine *engine, const char *name, const void *values, size_t bytes, rt_error *error) {
    const rt_tensor_record *tensor;
    rt_status status = tensor_find(engine, RT_ROLE_INPUT, name, bytes, &tensor, error);
    if (status != RT_OK) return status;
    return rt_storage_write(engine->parts.storage, tensor->place, byte_offset(tensor), values, bytes, error);
}

rt_status rt_engine_output(rt_engine *engine, const char *name, void *values, size_t bytes, rt_error *error) {
    const rt_tensor_record *tensor;
    rt_status status = tensor_find(engine, RT_ROLE_OUTPUT, name, bytes, &tensor, error);
    if (status != RT_OK) return status;
    return rt_storage_read(engine->parts.storage, tensor->place, byte_offset(tensor), values, bytes, error);
}

/* --- runs, and the two files --- */

rt_status rt_engine_run(rt_engine *engine, rt_error *error) {
    uint64_t wall_ns;
    return rt_executor_round(engine->parts.executor, NULL, &wall_ns, error);
}

/* What became of a hint; without OpenCL there was nobody to ask. */
static const char *hint_outcome(const rt_parts *parts, rt_hint_kind kind) {
    return parts->device ? rt_hints_use(parts->device->hints, kind).outcome : "default";
}

void rt_engine_usage(const rt_engine *engine, rt_usage *usage) {
    rt_program_counts counts = rt_programs_counts(engine->parts.programs);
    *usage = (rt_usage){.tuned_match = rt_match_name(rt_tuned_fit(engine->parts.tuned)->match),
                        .tuned_used = rt_tuned_used(engine->parts.tuned),
                        .kernels_match = rt_match_name(rt_kernels_fit(engine->parts.kernels)->match),
                        .kernels_loaded = counts.loaded,
                        .kernels_built = counts.built,
                        .perf_hint = hint_outcome(&engine->parts, RT_HINT_KIND_PERF),
                        .priority_hint = hint_outcome(&engine->parts, RT_HINT_KIND_PRIORITY)};
}

rt_status rt_engine_save_kernels(rt_engine *engine, const char *path, rt_error *error) {
    rt_saved_kernels saved;
    return rt_kernels_save(&engine->parts, path, false, &saved, error);
}
