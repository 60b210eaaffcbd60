/* The commands (docs/farmrt.md). Each takes all its values before it does anything. */
#include <unistd.h>

#include "cpu.h"
#include "kernels_save.h"
#include "measure.h"
#include "probe.h"
#include "serve.h"
#include "session.h"
#include "trial.h"

enum { MAX_THREADS = 1024 };

/* --- load --- */

/* Called from the watchdog's thread. OpenCL has no way to stop a launch, so the process ends. */
static void hang_answer(void *user, const rt_error *error) {
    const rt_session *now = user;
    rt_json json = {0};
    rt_answer_begin(&json);
    rt_answer_error(&json, error);
    rt_answer_send(now->answers, &json);
    _exit(RT_EXIT_HUNG);
}

static void load_options(rt_session *now, rt_command *command, rt_options *options) {
    static const char *const affinities[] = {"none", "big", "little"};
    *options = (rt_options){.on_hang = hang_answer, .on_hang_user = now};
    options->plan_path = rt_command_required(command, "plan");
    options->data_path = rt_command_required(command, "data");
    options->tuned_path = rt_command_text(command, "tuned");
    options->kernels_path = rt_command_text(command, "kernels");
    options->soc = rt_command_text(command, "soc");
    options->opencl_library = rt_command_text(command, "opencl");
    options->threads = rt_command_number(command, "threads", 0, MAX_THREADS);
    options->affinity = (rt_affinity)rt_command_choice(command, "affinity", affinities, RT_COUNT(affinities));
    options->isa = rt_command_text(command, "isa");
    options->watchdog_ms = rt_command_number(command, "watchdog_ms", 0, INT32_MAX);
    options->limit_kernel_ms = rt_command_decimal(command, "limit_kernel_ms", 0);
    options->lazy = (int)rt_command_number(command, "lazy", 0, 1);
}

static void tensors_write(rt_json *json, const rt_engine *engine, const char *key, uint32_t role) {
    const rt_tensor_record *tensor;
    rt_json_array_begin(json, key);
    for (uint32_t i = 0; (tensor = rt_plan_tensor_by_role(&engine->plan, role, i)) != NULL; i++) {
        rt_json_object_begin(json, NULL);
        rt_json_string(json, "name", rt_plan_string(&engine->plan, tensor->name));
        rt_json_array_begin(json, "shape");
        for (uint32_t k = 0; k < tensor->rank; k++) rt_json_unsigned(json, NULL, tensor->shape[k]);
        rt_json_array_end(json);
        rt_json_object_end(json);
    }
    rt_json_array_end(json);
}

static void files_write(rt_json *json, const rt_engine *engine) {
    rt_json_object_begin(json, "tuned");
    rt_json_string(json, "match", rt_match_name(engine->tuned.match));
    rt_json_unsigned(json, "entries", engine->tuned.entry_count);
    rt_json_unsigned(json, "used", engine->tuned.used);
    rt_json_string(json, "reason", engine->tuned.reason);
    rt_json_object_end(json);
    rt_json_object_begin(json, "kernels");
    rt_json_string(json, "match", rt_match_name(engine->kernels.match));
    rt_json_unsigned(json, "loaded", engine->programs_loaded);
    rt_json_unsigned(json, "built", engine->programs_built);
    rt_json_ms(json, "build_ms", engine->build_ns);
    rt_json_string(json, "reason", engine->kernels.reason);
    rt_json_object_end(json);
}

static void load_write(rt_json *json, const rt_engine *engine, uint64_t init_ns) {
    rt_json_ms(json, "init_ms", init_ns);
    rt_json_string(json, "model", rt_plan_string(&engine->plan, engine->plan.meta->model));
    rt_json_unsigned(json, "steps", engine->plan.step_count);
    tensors_write(json, engine, "inputs", RT_ROLE_INPUT);
    tensors_write(json, engine, "outputs", RT_ROLE_OUTPUT);
    files_write(json, engine);
    if (engine->workers != NULL) {
        rt_json_object_begin(json, "cpu");
        rt_json_unsigned(json, "threads", rt_workers_count(engine->workers));
        rt_json_string(json, "isa", rt_cpu_isa(engine));
        rt_json_object_end(json);
    }
    rt_json_object_begin(json, "memory");
    rt_json_unsigned(json, "scratch_bytes", engine->scratch_bytes);
    rt_json_unsigned(json, "weights_bytes", engine->weights_bytes);
    rt_json_unsigned(json, "images_bytes", engine->images_bytes);
    rt_json_object_end(json);
}

static void engine_unload(rt_session *now) {
    rt_engine_destroy(now->engine);
    now->engine = NULL;
}

static rt_status engine_load(rt_session *now, const rt_options *options, rt_error *error) {
    engine_unload(now);
    uint64_t start_ns = rt_clock_ns();
    rt_status status = rt_engine_create(options, &now->engine, error);
    if (status == RT_OK) load_write(&now->json, now->engine, rt_clock_ns() - start_ns);
    return status;
}

static rt_status load_handle(rt_session *now, rt_command *command) {
    rt_options options;
    load_options(now, command, &options);
    rt_status status = rt_command_finish(command);
    return status == RT_OK ? engine_load(now, &options, command->error) : status;
}

static rt_status needs_engine(const rt_session *now, const rt_command *command) {
    if (now->engine != NULL) return RT_OK;
    return rt_error_set(command->error, RT_BAD_COMMAND, "%s: no plan is loaded", command->name);
}

static rt_status unload_handle(rt_session *now, rt_command *command) {
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) engine_unload(now);
    return status;
}

/* --- inputs and outputs --- */

typedef rt_status transfer(rt_engine *engine, const rt_tensor_record *tensor, const char *path, void *content,
                           size_t size, rt_error *error);

static rt_status input_transfer(rt_engine *engine, const rt_tensor_record *tensor, const char *path, void *content,
                                size_t size, rt_error *error) {
    rt_status status = rt_file_read(path, content, size, error);
    if (status != RT_OK) return status;
    return rt_engine_input(engine, rt_plan_string(&engine->plan, tensor->name), content, size / sizeof(float), error);
}

static rt_status output_transfer(rt_engine *engine, const rt_tensor_record *tensor, const char *path, void *content,
                                 size_t size, rt_error *error) {
    const char *name = rt_plan_string(&engine->plan, tensor->name);
    rt_status status = rt_engine_output(engine, name, content, size / sizeof(float), error);
    return status == RT_OK ? rt_file_write(path, content, size, error) : status;
}

static rt_status tensor_transfer(rt_session *now, uint32_t role, const char *name, const char *path, size_t *size,
                                 rt_error *error) {
    bool input = role == RT_ROLE_INPUT;
    const rt_tensor_record *tensor = rt_plan_tensor_by_name(&now->engine->plan, role, name);
    if (tensor == NULL) {
        return rt_error_set(error, RT_BAD_COMMAND, "the plan has no %s '%s'", input ? "input" : "output", name);
    }
    *size = (size_t)rt_tensor_element_count(tensor) * sizeof(float);
    void *content = rt_memory_allocate(*size, 1);
    if (content == NULL) return rt_error_no_memory(error, "a tensor");
    transfer *move = input ? input_transfer : output_transfer;
    rt_status status = move(now->engine, tensor, path, content, *size, error);
    rt_memory_free(content);
    return status;
}

static rt_status transfer_handle(rt_session *now, rt_command *command, uint32_t role) {
    size_t size;
    const char *name = rt_command_required(command, "name");
    const char *path = rt_command_required(command, "file");
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) status = needs_engine(now, command);
    if (status == RT_OK) status = tensor_transfer(now, role, name, path, &size, command->error);
    if (status == RT_OK) rt_json_unsigned(&now->json, "bytes", size);
    return status;
}

static rt_status input_handle(rt_session *now, rt_command *command) {
    return transfer_handle(now, command, RT_ROLE_INPUT);
}

static rt_status output_handle(rt_session *now, rt_command *command) {
    return transfer_handle(now, command, RT_ROLE_OUTPUT);
}

/* --- the other commands --- */

static rt_status run_handle(rt_session *now, rt_command *command) {
    rt_run_request request;
    rt_run_take(&request, command);
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) status = needs_engine(now, command);
    return status == RT_OK ? rt_run_measure(now->engine, &request, &now->json, command->error) : status;
}

static rt_status probe_handle(rt_session *now, rt_command *command) {
    const char *library = rt_command_text(command, "opencl");
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) rt_probe_write(&now->json, library);
    return status;
}

static rt_status kernels_save(rt_session *now, const char *path, rt_error *error) {
    uint32_t programs;
    uint64_t bytes;
    rt_status status = rt_kernels_save(now->engine, path, &programs, &bytes, error);
    if (status != RT_OK) return status;
    rt_json_unsigned(&now->json, "programs", programs);
    rt_json_unsigned(&now->json, "bytes", bytes);
    return RT_OK;
}

static rt_status save_kernels_handle(rt_session *now, rt_command *command) {
    const char *path = rt_command_required(command, "file");
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) status = needs_engine(now, command);
    return status == RT_OK ? kernels_save(now, path, command->error) : status;
}

static rt_status trial_handle(rt_session *now, rt_command *command) {
    rt_trial trial;
    rt_trial_take(&trial, command);
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) status = needs_engine(now, command);
    if (status == RT_OK) status = rt_trial_run(now->engine, &trial, &now->json, command->error);
    return status;
}

/* `farmrt run`: load, inputs, run, outputs, in one command. */
static rt_status whole_run(rt_session *now, rt_command *command, const rt_options *options,
                           const rt_run_request *request, const char *kernels_path) {
    size_t size;
    rt_command all = *command; /* its input: and output: pairs are taken only now */
    rt_status status = engine_load(now, options, command->error);
    for (rt_pair *pair; status == RT_OK && (pair = rt_command_next(&all, "input:")) != NULL;) {
        status = tensor_transfer(now, RT_ROLE_INPUT, pair->key + strlen("input:"), pair->value, &size, command->error);
    }
    if (status == RT_OK) status = rt_run_measure(now->engine, request, &now->json, command->error);
    for (rt_pair *pair; status == RT_OK && (pair = rt_command_next(&all, "output:")) != NULL;) {
        status =
            tensor_transfer(now, RT_ROLE_OUTPUT, pair->key + strlen("output:"), pair->value, &size, command->error);
    }
    if (status == RT_OK && kernels_path != NULL) status = kernels_save(now, kernels_path, command->error);
    return status;
}

static rt_status whole_run_handle(rt_session *now, rt_command *command) {
    rt_options options;
    rt_run_request request;
    load_options(now, command, &options);
    rt_run_take(&request, command);
    const char *kernels_path = rt_command_text(command, "save_kernels");
    rt_command taken = *command;
    while (rt_command_next(&taken, "input:") != NULL || rt_command_next(&taken, "output:") != NULL) continue;
    rt_status status = rt_command_finish(&taken);
    return status == RT_OK ? whole_run(now, command, &options, &request, kernels_path) : status;
}

const rt_command_entry rt_serve_commands[] = {
    {"probe", probe_handle},
    {"load", load_handle},
    {"input", input_handle},
    {"output", output_handle},
    {"run", run_handle},
    {"trial", trial_handle},
    {"unload", unload_handle},
    {"save_kernels", save_kernels_handle},
    {NULL, NULL},
};

const rt_command_entry rt_once_commands[] = {{"probe", probe_handle}, {"run", whole_run_handle}, {NULL, NULL}};
