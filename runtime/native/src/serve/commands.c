/* A handler first takes all its values and calls rt_command_finish: up to there nothing has changed, so that a command
 * with a typing error leaves everything as it was. Then it needs a plan, most of them; then it acts.
 */
#include "commands.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"
#include "../system/file.h"
#include "../opencl/examine.h"
#include "../opencl/kernels_save.h"
#include "../run/load.h"
#include "../system/log.h"
#include "../run/measure.h"
#include "../run/parts.h"
#include "../run/probe.h"
#include "../system/process_memory.h"
#include "../opencl/trial.h"

/* The session's plan; NULL and an error where none is loaded. */
static rt_engine *engine_needed(const rt_session *session, const rt_command *command, rt_error *error) {
    rt_engine *engine = rt_session_engine(session);
    if (engine == NULL) {
        rt_error_set(error, RT_BAD_COMMAND, "%s: no plan is loaded", rt_command_name(command));
    }
    return engine;
}

/* --- load, unload --- */

/* The plan before is gone even where the new one cannot be loaded (rt_session_load). */
static rt_status load_handle(rt_session *session, rt_command *command, rt_error *error) {
    rt_options options;
    rt_load_take(&options, command);
    rt_status status = rt_command_finish(command);
    return status == RT_OK ? rt_load_run(session, &options, error) : status;
}

/* Without a plan it does nothing, and that is no error. */
static rt_status unload_handle(rt_session *session, rt_command *command, rt_error *error) {
    (void)error;
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) rt_session_unload(session);
    return status;
}

/* --- inputs and outputs --- */

/* Moves all elements of a tensor between a file and the engine, by way of `content`, which has room for their `size` bytes. */
typedef rt_status transfer(rt_engine *engine, const rt_named_value *file, void *content, size_t size,
                           rt_error *error);

/* From the file to the engine. RT_BAD_COMMAND where the file has another size than the tensor. */
static rt_status input_transfer(rt_engine *engine, const rt_named_value *file, void *content, size_t size,
                                rt_error *error) {
    rt_status status = rt_file_read(file->value, content, size, error);
    return status == RT_OK ? rt_engine_input(engine, file->name, content, size, error) : status;
}

/* From the engine to the file, which is written whole or stays as it was. */
static rt_status output_transfer(rt_engine *engine, const rt_named_value *file, void *content, size_t size,
                                 rt_error *error) {
    rt_status status = rt_engine_output(engine, file->name, content, size, error);
    return status == RT_OK ? rt_file_write(file->value, content, size, error) : status;
}

/* Moves the input or output that `file` names from or to the file it names; `size` is then its bytes. RT_BAD_COMMAND
 * where the plan has no such tensor; else it fails as the file or the engine does. */
static rt_status tensor_transfer(rt_engine *engine, uint32_t role, const rt_named_value *file, size_t *size,
                                 rt_error *error) {
    bool input = role == RT_ROLE_INPUT;
    const rt_tensor_record *tensor = rt_plan_tensor_by_name(rt_engine_parts(engine)->plan, role, file->name);
    if (tensor == NULL) {
        return rt_error_set(error, RT_BAD_COMMAND, "the plan has no %s '%s'", input ? "input" : "output", file->name);
    }
    *size = (size_t)(rt_tensor_element_count(tensor) * rt_element_bytes(tensor->element_type));
    void *content = rt_memory_allocate(*size, 1);
    if (content == NULL) return rt_error_no_memory(error, "a tensor");
    transfer *move = input ? input_transfer : output_transfer;
    rt_status status = move(engine, file, content, *size, error);
    rt_memory_free(content);
    return status;
}

/* `input` and `output`: takes the name and the file, moves the tensor, and tells its bytes. */
static rt_status transfer_handle(rt_session *session, rt_command *command, uint32_t role, rt_error *error) {
    size_t size;
    rt_named_value file;
    file.name = rt_command_required(command, "name");
    file.value = rt_command_required(command, "file");
    rt_status status = rt_command_finish(command);
    if (status != RT_OK) return status;
    rt_engine *engine = engine_needed(session, command, error);
    if (engine == NULL) return RT_BAD_COMMAND;
    status = tensor_transfer(engine, role, &file, &size, error);
    if (status == RT_OK) rt_json_unsigned(rt_session_json(session), "bytes", size);
    return status;
}

static rt_status input_handle(rt_session *session, rt_command *command, rt_error *error) {
    return transfer_handle(session, command, RT_ROLE_INPUT, error);
}

static rt_status output_handle(rt_session *session, rt_command *command, rt_error *error) {
    return transfer_handle(session, command, RT_ROLE_OUTPUT, error);
}

/* --- the other commands --- */

/* Measures the loaded plan into the answer. */
static rt_status run_measure(const rt_session *session, const rt_run_request *request, rt_error *error) {
    return rt_run_measure(rt_engine_parts(rt_session_engine(session)), request, rt_session_json(session), error);
}

/* Rounds of the loaded plan, which are members of the answer only where all of them succeed. */
static rt_status run_handle(rt_session *session, rt_command *command, rt_error *error) {
    rt_run_request request;
    rt_run_take(&request, command);
    rt_status status = rt_command_finish(command);
    if (status != RT_OK) return status;
    return engine_needed(session, command, error) ? run_measure(session, &request, error) : RT_BAD_COMMAND;
}

/* Needs no plan. A machine without OpenCL is an answer too, so only the command can be wrong. */
static rt_status probe_handle(rt_session *session, rt_command *command, rt_error *error) {
    (void)error;
    const char *library = rt_command_text(command, "opencl");
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) rt_probe_write(rt_session_json(session), library);
    return status;
}

/* Needs no plan, and leaves one that is loaded alone. */
static rt_status examine_handle(rt_session *session, rt_command *command, rt_error *error) {
    rt_examination wanted;
    rt_examine_take(&wanted, command);
    rt_status status = rt_command_finish(command);
    return status == RT_OK ? rt_examine_run(&wanted, rt_session_json(session), error) : status;
}

/* Tells what the process takes, and by which number a client finds it in /proc. */
static rt_status memory_handle(rt_session *session, rt_command *command, rt_error *error) {
    (void)error;
    rt_status status = rt_command_finish(command);
    if (status != RT_OK) return status;
    rt_process_memory memory = rt_process_memory_read();
    rt_json *json = rt_session_json(session);
    rt_json_unsigned(json, "process", (uint64_t)getpid());
    rt_json_unsigned(json, "peak_resident_bytes", memory.peak_bytes);
    rt_json_bool(json, "since_load", memory.since_restart);
    return RT_OK;
}

static rt_status log_handle(rt_session *session, rt_command *command, rt_error *error) {
    (void)session, (void)error;
    uint32_t level = rt_command_choice(command, "level", rt_log_words, RT_COUNT(rt_log_words));
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) rt_log_set((rt_log_level)level);
    return status;
}

/* Saves the plan's compiled kernels, and adds the number of programs and of bytes to the answer. */
static rt_status kernels_save(rt_session *session, const char *path, bool trials, rt_error *error) {
    rt_saved_kernels saved;
    rt_status status = rt_kernels_save(rt_engine_parts(rt_session_engine(session)), path, trials, &saved, error);
    if (status != RT_OK) return status;
    rt_json_unsigned(rt_session_json(session), "programs", saved.programs);
    rt_json_unsigned(rt_session_json(session), "bytes", saved.bytes);
    return RT_OK;
}

static rt_status save_kernels_handle(rt_session *session, rt_command *command, rt_error *error) {
    const char *path = rt_command_required(command, "file");
    bool trials = rt_command_number(command, "trials", 0, 1) != 0;
    rt_status status = rt_command_finish(command);
    if (status != RT_OK) return status;
    return engine_needed(session, command, error) ? kernels_save(session, path, trials, error) : RT_BAD_COMMAND;
}

/* One step of the loaded plan with another launch; rt_trial_run writes the answer's members. */
static rt_status trial_handle(rt_session *session, rt_command *command, rt_error *error) {
    rt_trial trial;
    rt_trial_take(&trial, command);
    rt_status status = rt_command_finish(command);
    if (status != RT_OK) return status;
    rt_engine *engine = engine_needed(session, command, error);
    return engine ? rt_trial_run(rt_engine_parts(engine), &trial, rt_session_json(session), error) : RT_BAD_COMMAND;
}

/* --- `farmrt run`: load, inputs, run, outputs, in one command --- */

/* What the command asks for. */
typedef struct {
    rt_options options;
    rt_run_request request;
    uint32_t input_count, output_count;
    const char *kernels_path; /* NULL: they are not saved */
} whole_run;

static const char input_prefix[] = "input:", output_prefix[] = "output:";

/* Moves the tensors of the pairs with a prefix, as many as there are. */
static rt_status tensors_transfer(rt_session *session, const rt_command *command, uint32_t role, uint32_t count,
                                  rt_error *error) {
    size_t size;
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < count && status == RT_OK; i++) {
        rt_named_value file = rt_command_prefixed(command, role == RT_ROLE_INPUT ? input_prefix : output_prefix, i);
        status = tensor_transfer(rt_session_engine(session), role, &file, &size, error);
    }
    return status;
}

/* Stops at the first of its parts that fails; the plan stays loaded until the session ends. */
static rt_status whole_run_execute(rt_session *session, const rt_command *command, const whole_run *whole,
                                   rt_error *error) {
    rt_status status = rt_load_run(session, &whole->options, error);
    if (status == RT_OK) status = tensors_transfer(session, command, RT_ROLE_INPUT, whole->input_count, error);
    if (status == RT_OK) status = run_measure(session, &whole->request, error);
    if (status == RT_OK) status = tensors_transfer(session, command, RT_ROLE_OUTPUT, whole->output_count, error);
    if (status == RT_OK && whole->kernels_path != NULL) status = kernels_save(session, whole->kernels_path, false, error);
    return status;
}

/* Takes every value, the pairs with prefixes too, before it loads anything. */
static rt_status whole_run_handle(rt_session *session, rt_command *command, rt_error *error) {
    whole_run whole;
    rt_load_take(&whole.options, command);
    rt_run_take(&whole.request, command);
    whole.kernels_path = rt_command_text(command, "save_kernels");
    whole.input_count = rt_command_prefixed_count(command, input_prefix);
    whole.output_count = rt_command_prefixed_count(command, output_prefix);
    rt_status status = rt_command_finish(command);
    return status == RT_OK ? whole_run_execute(session, command, &whole, error) : status;
}

const rt_command_entry rt_serve_commands[] = {
    {"probe", probe_handle},
    {"examine", examine_handle},
    {"load", load_handle},
    {"input", input_handle},
    {"output", output_handle},
    {"run", run_handle},
    {"trial", trial_handle},
    {"unload", unload_handle},
    {"memory", memory_handle},
    {"log", log_handle},
    {"save_kernels", save_kernels_handle},
    {NULL, NULL},
};

const rt_command_entry rt_once_commands[] = {{"probe", probe_handle}, {"run", whole_run_handle}, {NULL, NULL}};
