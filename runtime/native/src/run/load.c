#include "load.h"

#include <stdint.h>
#include <string.h>

#include "../system/affinity.h"
#include "../system/arithmetic.h"
#include "../system/clock.h"
#include "../system/log.h"
#include "parts.h"
#include "../system/process_memory.h"

enum { MAX_THREADS = 1024, MAX_FLUSH_EVERY = 1000000 };

/* A policy's word, or a list of CPUs, which begins with a digit. */
static void affinity_take(rt_options *options, rt_command *command) {
    static const char *const policies[] = {"none", "big", "little"};
    const char *text = rt_command_text(command, "affinity");
    if (text != NULL && text[0] >= '0' && text[0] <= '9') {
        options->cores = text;
    } else {
        options->affinity = (rt_affinity)rt_command_choice(command, "affinity", policies, RT_COUNT(policies));
    }
}

static rt_hint hint_take(rt_command *command, const char *key) {
    const char *words[RT_HINT_HIGH + 1];
    for (int i = RT_HINT_DEFAULT; i <= RT_HINT_HIGH; i++) words[i] = rt_hint_name((rt_hint)i);
    return (rt_hint)rt_command_choice(command, key, words, RT_COUNT(words));
}

/* Launches, or the word `never`; 0, as the GPU's family needs it, where nothing is given. */
static uint32_t flush_take(rt_command *command) {
    const char *text = rt_command_text(command, "flush_every");
    if (text != NULL && strcmp(text, "never") == 0) return RT_FLUSH_NEVER;
    return rt_command_number(command, "flush_every", 0, MAX_FLUSH_EVERY);
}

void rt_load_take(rt_options *options, rt_command *command) {
    *options = (rt_options){0};
    options->plan_path = rt_command_required(command, "plan");
    options->data_path = rt_command_required(command, "data");
    options->tuned_path = rt_command_text(command, "tuned");
    options->kernels_path = rt_command_text(command, "kernels");
    options->operators_path = rt_command_text(command, "operators");
    options->soc = rt_command_text(command, "soc");
    options->opencl_library = rt_command_text(command, "opencl");
    options->threads = rt_command_number(command, "threads", 0, MAX_THREADS);
    affinity_take(options, command);
    options->perf_hint = hint_take(command, "perf_hint");
    options->priority_hint = hint_take(command, "priority_hint");
    options->isa = rt_command_text(command, "isa");
    options->watchdog_ms = rt_command_number(command, "watchdog_ms", 0, INT32_MAX);
    options->limit_kernel_ms = rt_command_decimal(command, "limit_kernel_ms", 0);
    options->lazy = (int)rt_command_number(command, "lazy", 0, 1);
    options->flush_every = flush_take(command);
    options->zero_copy = (int)rt_command_number(command, "zero_copy", 0, 1);
    options->record = (int)rt_command_number(command, "record", 0, 1);
    options->host_times = (int)rt_command_number(command, "host_times", 0, 1);
}

/* Inputs or outputs: names and shapes. */
static void tensors_write(rt_json *json, const rt_plan *plan, const char *key, uint32_t role) {
    const rt_tensor_record *tensor;
    rt_json_array_begin(json, key);
    for (uint32_t i = 0; (tensor = rt_plan_tensor_by_role(plan, role, i)) != NULL; i++) {
        rt_json_object_begin(json, NULL);
        rt_json_string(json, "name", rt_plan_string(plan, tensor->name));
        rt_json_array_begin(json, "shape");
        for (uint32_t k = 0; k < tensor->rank; k++) rt_json_unsigned(json, NULL, tensor->shape[k]);
        rt_json_array_end(json);
        rt_json_object_end(json);
    }
    rt_json_array_end(json);
}

/* How the tuned parameters, and then the compiled kernels, were used. */
static void tuned_write(rt_json *json, const rt_tuned *tuned) {
    rt_json_object_begin(json, "tuned");
    rt_json_string(json, "match", rt_match_name(rt_tuned_fit(tuned)->match));
    rt_json_unsigned(json, "entries", rt_tuned_entry_count(tuned));
    rt_json_unsigned(json, "used", rt_tuned_used(tuned));
    rt_json_string(json, "reason", rt_tuned_fit(tuned)->reason);
    rt_json_object_end(json);
}

static void kernels_write(rt_json *json, const rt_kernels *kernels, const rt_programs *programs) {
    rt_program_counts counts = rt_programs_counts(programs);
    rt_json_object_begin(json, "kernels");
    rt_json_string(json, "match", rt_match_name(rt_kernels_fit(kernels)->match));
    rt_json_unsigned(json, "loaded", counts.loaded);
    rt_json_unsigned(json, "built", counts.built);
    rt_json_ms(json, "build_ms", counts.build_ns);
    rt_json_string(json, "reason", rt_kernels_fit(kernels)->reason);
    rt_json_object_end(json);
}

/* Only of plans with CPU steps. */
static void cpu_write(rt_json *json, const rt_cpu *cpu) {
    char cores[RT_CORES_TEXT_BYTES];
    rt_cpu_cores_text(cpu, cores, sizeof cores);
    rt_json_object_begin(json, "cpu");
    rt_json_unsigned(json, "threads", rt_cpu_threads(cpu));
    rt_json_string(json, "isa", rt_cpu_isa(cpu));
    rt_json_string(json, "cores", cores);
    rt_json_object_end(json);
}

/* What became of the hints to the driver; only of plans with OpenCL steps. */
static void hint_write(rt_json *json, const char *key, rt_hint_use use) {
    rt_json_object_begin(json, key);
    rt_json_string(json, "asked", rt_hint_name(use.asked));
    rt_json_string(json, "outcome", use.outcome);
    rt_json_string(json, "extension", use.extension);
    rt_json_object_end(json);
}

static void hints_write(rt_json *json, const rt_device *device) {
    hint_write(json, "perf_hint", rt_hints_use(device->hints, RT_HINT_KIND_PERF));
    hint_write(json, "priority_hint", rt_hints_use(device->hints, RT_HINT_KIND_PRIORITY));
}

/* How the plan's launches differ from what it says, and what the device is trusted with. */
static void launches_write(rt_json *json, const rt_parts *parts) {
    uint32_t every = parts->device->flush_every;
    rt_json_unsigned(json, "smaller_groups", rt_steps_smaller_groups(parts->steps));
    rt_json_unsigned(json, "flush_every", every == RT_FLUSH_NEVER ? 0 : every);
    rt_json_bool(json, "zero_copy", parts->device->in_place);
    rt_json_bool(json, "record", parts->device->recorder != NULL);
}

/* Bytes of the plan's memory, by what they hold. */
static void memory_write(rt_json *json, const rt_storage *storage) {
    rt_storage_sizes sizes = rt_storage_sizes_of(storage);
    rt_json_object_begin(json, "memory");
    rt_json_unsigned(json, "scratch_bytes", sizes.scratch_bytes);
    rt_json_unsigned(json, "weights_bytes", sizes.weights_bytes);
    rt_json_unsigned(json, "images_bytes", sizes.images_bytes);
    rt_json_object_end(json);
}

/* The answer's members but the time. */
static void parts_write(rt_json *json, const rt_parts *parts) {
    rt_json_string(json, "model", rt_plan_string(parts->plan, parts->plan->meta->model));
    rt_json_unsigned(json, "steps", parts->plan->step_count);
    tensors_write(json, parts->plan, "inputs", RT_ROLE_INPUT);
    tensors_write(json, parts->plan, "outputs", RT_ROLE_OUTPUT);
    tuned_write(json, parts->tuned);
    kernels_write(json, parts->kernels, parts->programs);
    if (rt_cpu_threads(parts->cpu) > 0) cpu_write(json, parts->cpu);
    if (parts->device != NULL) hints_write(json, parts->device);
    if (parts->device != NULL) launches_write(json, parts);
    memory_write(json, parts->storage);
}

/* Says what runs where. */
static void load_log(const rt_parts *parts) {
    char cores[RT_CORES_TEXT_BYTES];
    if (parts->device != NULL) {
        rt_log(RT_LOG_INFO, "OpenCL: %s, driver %s, from %s", parts->device->name, parts->device->driver,
               parts->device->opencl.path);
    }
    if (rt_cpu_threads(parts->cpu) == 0) return;
    rt_cpu_cores_text(parts->cpu, cores, sizeof cores);
    rt_log(RT_LOG_INFO, "CPU operators: %u threads on CPUs %s, %s", rt_cpu_threads(parts->cpu), cores,
           rt_cpu_isa(parts->cpu));
}

rt_status rt_load_run(rt_session *session, const rt_options *options, rt_error *error) {
    rt_session_unload(session); /* not part of the time */
    rt_process_memory_restart();
    uint64_t start_ns = rt_clock_ns();
    rt_status status = rt_session_load(session, options, error);
    if (status != RT_OK) return status;
    rt_json_ms(rt_session_json(session), "init_ms", rt_clock_ns() - start_ns);
    load_log(rt_engine_parts(rt_session_engine(session)));
    parts_write(rt_session_json(session), rt_engine_parts(rt_session_engine(session)));
    return RT_OK;
}
