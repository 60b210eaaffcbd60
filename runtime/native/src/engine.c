/* The C API: loading, inputs, outputs, one run. */
#include "cpu.h"
#include "execute.h"
#include "kernels_save.h"
#include "launch.h"
#include "program.h"
#include "repack.h"
#include "storage.h"

static char *name_copy(const char *path, const char *fallback) {
    return rt_memory_copy_string(path != NULL ? path : fallback);
}

static rt_status names_copy(rt_engine *engine, rt_error *error) {
    const rt_options *options = &engine->options;
    engine->plan_name = name_copy(options->plan_path, "plan");
    engine->data_name = name_copy(options->data_path, "data");
    engine->tuned_name = name_copy(options->tuned_path, "tuned parameters");
    engine->kernels_name = name_copy(options->kernels_path, "compiled kernels");
    engine->soc = name_copy(options->soc, "");
    bool complete = engine->plan_name && engine->data_name && engine->tuned_name && engine->kernels_name && engine->soc;
    return complete ? RT_OK : rt_error_no_memory(error, "names");
}

/* From a path, with `open`, or from the caller's memory. */
static rt_status bytes_take(rt_bytes *bytes, const char *path, rt_status (*open)(rt_bytes *, const char *, rt_error *),
                            const void *content, size_t size, rt_error *error) {
    return path != NULL ? open(bytes, path, error) : rt_bytes_wrap(bytes, content, size, error);
}

static rt_status plan_load(rt_engine *engine, rt_error *error) {
    const rt_options *options = &engine->options;
    bool given = (options->plan_path || options->plan_bytes) && (options->data_path || options->data_bytes);
    if (!given) return rt_error_set(error, RT_BAD_COMMAND, "a plan and its data are needed");
    rt_status status = bytes_take(&engine->plan_bytes, options->plan_path, rt_bytes_read, options->plan_bytes,
                                  options->plan_size, error);
    if (status != RT_OK) return status;
    status = bytes_take(&engine->data_bytes, options->data_path, rt_bytes_map, options->data_bytes, options->data_size,
                        error);
    if (status != RT_OK) return status;
    return rt_plan_open(&engine->plan, &engine->plan_bytes, &engine->data_bytes, engine->plan_name, engine->data_name,
                        error);
}

static rt_status device_load(rt_engine *engine, rt_error *error) {
    if (!rt_plan_needs_opencl(&engine->plan)) return RT_OK;
    rt_status status = rt_device_open(&engine->device, engine->options.opencl_library, error);
    engine->has_device = status == RT_OK;
    return status;
}

static rt_status tuned_load(rt_engine *engine, rt_error *error) {
    const rt_options *options = &engine->options;
    if (options->tuned_path == NULL && options->tuned_bytes == NULL) return RT_OK;
    rt_status status = bytes_take(&engine->tuned_bytes, options->tuned_path, rt_bytes_read, options->tuned_bytes,
                                  options->tuned_size, error);
    if (status != RT_OK) return status;
    return rt_tuned_open(&engine->tuned, &engine->tuned_bytes, engine->tuned_name, &engine->plan,
                         engine->has_device ? &engine->device : NULL, engine->soc, error);
}

static rt_status kernels_load(rt_engine *engine, rt_error *error) {
    const rt_options *options = &engine->options;
    if (options->kernels_path == NULL && options->kernels_bytes == NULL) return RT_OK;
    rt_status status = bytes_take(&engine->kernels_bytes, options->kernels_path, rt_bytes_read, options->kernels_bytes,
                                  options->kernels_size, error);
    if (status != RT_OK) return status;
    return rt_kernels_open(&engine->kernels, &engine->kernels_bytes, engine->kernels_name, &engine->plan,
                           engine->has_device ? &engine->device : NULL, engine->soc, error);
}

static rt_status steps_load(rt_engine *engine, rt_error *error) {
    const rt_plan *plan = &engine->plan;
    rt_status status = RT_OK;
    engine->steps = rt_memory_allocate(plan->step_count, sizeof *engine->steps);
    if (engine->steps == NULL) return rt_error_no_memory(error, "the plan's steps");
    rt_launches_choose(engine);
    for (uint32_t i = 0; i < plan->step_count && status == RT_OK; i++) {
        engine->steps[i].parts = 1;
        if (plan->steps[i].kind == RT_STEP_KIND_CPU) {
            status = rt_cpu_call_create(engine, i, error);
        } else if (!engine->options.lazy) {
            status = rt_step_prepare(engine, i, error);
        }
    }
    return status;
}

static rt_status watchdog_load(rt_engine *engine, rt_error *error) {
    const rt_options *options = &engine->options;
    if (options->watchdog_ms == 0 || options->on_hang == NULL) return RT_OK;
    engine->watchdog = rt_watchdog_start(options->watchdog_ms, options->on_hang, options->on_hang_user);
    return engine->watchdog ? RT_OK : rt_error_no_memory(error, "the watchdog's thread");
}

typedef rt_status load_part(rt_engine *engine, rt_error *error);

rt_status rt_engine_create(const rt_options *options, rt_engine **engine, rt_error *error) {
    static load_part *const parts[] = {names_copy,   plan_load,         device_load,   tuned_load,
                                       kernels_load, rt_storage_create, watchdog_load, steps_load};
    rt_status status = RT_OK;
    rt_engine *made = *engine = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "an engine");
    made->options = *options;
    for (size_t i = 0; i < RT_COUNT(parts) && status == RT_OK; i++) status = parts[i](made, error);
    if (status != RT_OK) {
        rt_engine_destroy(made);
        *engine = NULL;
    }
    return status;
}

static void steps_release(rt_engine *engine) {
    for (uint32_t i = 0; engine->steps != NULL && i < engine->plan.step_count; i++) {
        if (engine->steps[i].kernel != NULL) rt_engine_cl(engine)->ReleaseKernel(engine->steps[i].kernel);
        rt_cpu_call_destroy(engine->steps[i].call);
    }
    rt_memory_free(engine->steps);
}

void rt_engine_destroy(rt_engine *engine) {
    if (engine == NULL) return;
    rt_watchdog_stop(engine->watchdog);
    steps_release(engine);
    rt_workers_stop(engine->workers);
    rt_repack_release(engine);
    rt_programs_release(engine);
    rt_storage_destroy(engine);
    if (engine->has_device) rt_device_close(&engine->device);
    rt_bytes_release(&engine->plan_bytes);
    rt_bytes_release(&engine->data_bytes);
    rt_bytes_release(&engine->tuned_bytes);
    rt_bytes_release(&engine->kernels_bytes);
    char *const names[] = {engine->plan_name, engine->data_name, engine->tuned_name, engine->kernels_name, engine->soc};
    for (size_t i = 0; i < RT_COUNT(names); i++) rt_memory_free(names[i]);
    rt_memory_free(engine);
}

static rt_status tensor_info(const rt_engine *engine, uint32_t role, uint32_t index, rt_tensor_info *info) {
    const rt_tensor_record *tensor = rt_plan_tensor_by_role(&engine->plan, role, index);
    if (tensor == NULL) return RT_BAD_COMMAND;
    *info = (rt_tensor_info){.name = rt_plan_string(&engine->plan, tensor->name),
                             .shape = tensor->shape,
                             .rank = tensor->rank,
                             .count = (size_t)rt_tensor_element_count(tensor)};
    return RT_OK;
}

rt_status rt_engine_input_info(const rt_engine *engine, uint32_t index, rt_tensor_info *info) {
    return tensor_info(engine, RT_ROLE_INPUT, index, info);
}

rt_status rt_engine_output_info(const rt_engine *engine, uint32_t index, rt_tensor_info *info) {
    return tensor_info(engine, RT_ROLE_OUTPUT, index, info);
}

static rt_status tensor_find(const rt_engine *engine, uint32_t role, const char *name, size_t count,
                             const rt_tensor_record **tensor, rt_error *error) {
    const char *kind = role == RT_ROLE_INPUT ? "input" : "output";
    *tensor = rt_plan_tensor_by_name(&engine->plan, role, name);
    if (*tensor == NULL) return rt_error_set(error, RT_BAD_COMMAND, "the plan has no %s '%s'", kind, name);
    uint64_t expected = rt_tensor_element_count(*tensor);
    if (expected == count) return RT_OK;
    return rt_error_set(error, RT_BAD_COMMAND, "%s '%s' has %llu elements, not %zu", kind, name,
                        (unsigned long long)expected, count);
}

rt_status rt_engine_input(rt_engine *engine, const char *name, const float *values, size_t count, rt_error *error) {
    const rt_tensor_record *tensor;
    rt_status status = tensor_find(engine, RT_ROLE_INPUT, name, count, &tensor, error);
    if (status != RT_OK) return status;
    return rt_storage_write(engine, tensor->place, tensor->offset * sizeof(float), values, count * sizeof(float),
                            error);
}

rt_status rt_engine_output(rt_engine *engine, const char *name, float *values, size_t count, rt_error *error) {
    const rt_tensor_record *tensor;
    rt_status status = tensor_find(engine, RT_ROLE_OUTPUT, name, count, &tensor, error);
    if (status != RT_OK) return status;
    return rt_storage_read(engine, tensor->place, tensor->offset * sizeof(float), values, count * sizeof(float), error);
}

rt_status rt_engine_run(rt_engine *engine, rt_error *error) {
    uint64_t wall_ns;
    return rt_round_run(engine, NULL, &wall_ns, error);
}

void rt_engine_usage(const rt_engine *engine, rt_usage *usage) {
    *usage = (rt_usage){.tuned_match = rt_match_name(engine->tuned.match),
                        .tuned_used = engine->tuned.used,
                        .kernels_match = rt_match_name(engine->kernels.match),
                        .kernels_loaded = engine->programs_loaded,
                        .kernels_built = engine->programs_built};
}

rt_status rt_engine_save_kernels(rt_engine *engine, const char *path, rt_error *error) {
    uint32_t programs;
    uint64_t bytes;
    return rt_kernels_save(engine, path, &programs, &bytes, error);
}
