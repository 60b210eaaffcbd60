#include "serve.h"

#include <errno.h>
#include <unistd.h>

#include "command.h"
#include "cpu.h"
#include "execute.h"
#include "json.h"
#include "kernels_save.h"
#include "probe.h"
#include "trial.h"

enum { MAX_LINE_BYTES = 1 << 20, MAX_THREADS = 1024, MAX_ROUNDS = 1000000 };

typedef struct {
    int answers;
    rt_engine *engine;
    rt_json json;
    uint64_t first_ns; /* of the engine's first round, if it ran within this command */
} session;

typedef rt_status handler(session *now, rt_command *command);

/* --- answers --- */

static void error_write(rt_json *json, const rt_error *error) {
    rt_json_bool(json, "ok", false);
    rt_json_string(json, "error", rt_status_name(error->status));
    rt_json_string(json, "message", error->message);
    if (error->call[0] != '\0') {
        rt_json_string(json, "call", error->call);
        rt_json_integer(json, "code", error->code);
        rt_json_string(json, "code_name", rt_opencl_code_name(error->code));
    }
    if (error->step != RT_NO_STEP) rt_json_integer(json, "step", error->step);
}

/* Ends the object and the line, and sends it; false when nobody reads any more. */
static bool answer_send(int descriptor, rt_json *json) {
    static const char no_memory[] = "{\"ok\": false, \"error\": \"no_memory\", \"message\": \"not enough memory for the answer\"}\n";
    rt_json_object_end(json);
    if (json->failed) return rt_descriptor_write(descriptor, no_memory, sizeof no_memory - 1);
    json->text[json->length] = '\n'; /* in place of the NUL */
    return rt_descriptor_write(descriptor, json->text, json->length + 1);
}

static void answer_begin(rt_json *json) {
    rt_json_reset(json);
    rt_json_object_begin(json, NULL);
}

/* Called from the watchdog's thread. OpenCL has no way to stop a launch, so the process ends. */
static void hang_answer(void *user, const rt_error *error) {
    const session *now = user;
    rt_json json = {0};
    answer_begin(&json);
    error_write(&json, error);
    answer_send(now->answers, &json);
    _exit(RT_EXIT_HUNG);
}

/* --- load --- */

static void load_options(session *now, rt_command *command, rt_options *options) {
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

static void engine_unload(session *now) {
    rt_engine_destroy(now->engine);
    now->engine = NULL;
}

static rt_status engine_load(session *now, const rt_options *options, rt_error *error) {
    engine_unload(now);
    uint64_t start_ns = rt_clock_ns();
    rt_status status = rt_engine_create(options, &now->engine, error);
    if (status == RT_OK) load_write(&now->json, now->engine, rt_clock_ns() - start_ns);
    return status;
}

static rt_status load_handle(session *now, rt_command *command) {
    rt_options options;
    load_options(now, command, &options);
    rt_status status = rt_command_finish(command);
    return status == RT_OK ? engine_load(now, &options, command->error) : status;
}

static rt_status needs_engine(const session *now, const rt_command *command) {
    if (now->engine != NULL) return RT_OK;
    return rt_error_set(command->error, RT_BAD_COMMAND, "%s: no plan is loaded", command->name);
}

static rt_status unload_handle(session *now, rt_command *command) {
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) engine_unload(now);
    return status;
}

/* --- inputs and outputs --- */

typedef rt_status transfer(rt_engine *engine, const rt_tensor_record *tensor, const char *path, void *content, size_t size,
                           rt_error *error);

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

static rt_status tensor_transfer(session *now, uint32_t role, const char *name, const char *path, size_t *size,
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

static rt_status transfer_handle(session *now, rt_command *command, uint32_t role) {
    size_t size;
    const char *name = rt_command_required(command, "name");
    const char *path = rt_command_required(command, "file");
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) status = needs_engine(now, command);
    if (status == RT_OK) status = tensor_transfer(now, role, name, path, &size, command->error);
    if (status == RT_OK) rt_json_unsigned(&now->json, "bytes", size);
    return status;
}

static rt_status input_handle(session *now, rt_command *command) { return transfer_handle(now, command, RT_ROLE_INPUT); }

static rt_status output_handle(session *now, rt_command *command) {
    return transfer_handle(now, command, RT_ROLE_OUTPUT);
}

/* --- run --- */

typedef struct {
    uint32_t rounds, warmup;
    bool profile;
} run_request;

/* What a run measured: warm-up rounds first. */
typedef struct {
    uint64_t *wall_ns;     /* one a round */
    uint64_t *duration_ns; /* [round][step], with a profile */
    rt_profile profile;
} run_times;

static void run_options(rt_command *command, run_request *request) {
    request->rounds = rt_command_number(command, "rounds", 1, MAX_ROUNDS);
    request->warmup = rt_command_number(command, "warmup", 0, MAX_ROUNDS);
    request->profile = rt_command_number(command, "profile", 0, 1) != 0;
}

static rt_status times_create(run_times *times, const rt_engine *engine, const run_request *request, rt_error *error) {
    uint32_t count = request->rounds + request->warmup;
    memset(times, 0, sizeof *times);
    times->wall_ns = rt_memory_allocate(count, sizeof *times->wall_ns);
    if (times->wall_ns == NULL) return rt_error_no_memory(error, "the times");
    if (!request->profile) return RT_OK;
    times->duration_ns = rt_memory_allocate(rt_product(count, engine->plan.step_count), sizeof *times->duration_ns);
    if (times->duration_ns == NULL) return rt_error_no_memory(error, "the times");
    return rt_profile_create(&times->profile, engine, error);
}

static void times_destroy(run_times *times, bool profile) {
    if (profile) rt_profile_destroy(&times->profile);
    rt_memory_free(times->wall_ns);
    rt_memory_free(times->duration_ns);
}

static rt_status rounds_run(session *now, const run_request *request, run_times *times, rt_error *error) {
    rt_engine *engine = now->engine;
    rt_status status = RT_OK;
    uint32_t steps = engine->plan.step_count;
    now->first_ns = 0;
    for (uint32_t i = 0; i < request->warmup + request->rounds && status == RT_OK; i++) {
        bool first = engine->rounds == 0;
        status = rt_round_run(engine, request->profile ? &times->profile : NULL, &times->wall_ns[i], error);
        if (first) now->first_ns = times->wall_ns[i];
        if (request->profile && steps > 0) {
            memcpy(times->duration_ns + (size_t)i * steps, times->profile.duration_ns, steps * sizeof(uint64_t));
        }
    }
    return status;
}

static void wall_write(rt_json *json, const char *key, const uint64_t *wall_ns, uint32_t count) {
    rt_json_array_begin(json, key);
    for (uint32_t i = 0; i < count; i++) rt_json_unsigned(json, NULL, wall_ns[i]);
    rt_json_array_end(json);
}

static void steps_write(rt_json *json, const run_request *request, const run_times *times, uint32_t steps) {
    rt_json_array_begin(json, "steps");
    for (uint32_t step = 0; step < steps; step++) {
        rt_json_object_begin(json, NULL);
        rt_json_unsigned(json, "start_ns", times->profile.start_ns[step]);
        rt_json_unsigned(json, "first_ns", times->duration_ns[step]);
        rt_json_array_begin(json, "ns");
        for (uint32_t i = request->warmup; i < request->warmup + request->rounds; i++) {
            rt_json_unsigned(json, NULL, times->duration_ns[(size_t)i * steps + step]);
        }
        rt_json_array_end(json);
        rt_json_object_end(json);
    }
    rt_json_array_end(json);
}

static rt_status run_measure(session *now, const run_request *request, rt_error *error) {
    run_times times;
    rt_status status = times_create(&times, now->engine, request, error);
    if (status == RT_OK) status = rounds_run(now, request, &times, error);
    if (status == RT_OK) {
        if (now->first_ns > 0) {
            rt_json_ms(&now->json, "first_ms", now->first_ns);
        } else {
            rt_json_null(&now->json, "first_ms");
        }
        wall_write(&now->json, "warmup_ns", times.wall_ns, request->warmup);
        wall_write(&now->json, "wall_ns", times.wall_ns + request->warmup, request->rounds);
        if (request->profile && request->rounds + request->warmup > 0) {
            steps_write(&now->json, request, &times, now->engine->plan.step_count);
        }
    }
    times_destroy(&times, request->profile);
    return status;
}

static rt_status run_handle(session *now, rt_command *command) {
    run_request request;
    run_options(command, &request);
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) status = needs_engine(now, command);
    return status == RT_OK ? run_measure(now, &request, command->error) : status;
}

/* --- the other commands --- */

static rt_status probe_handle(session *now, rt_command *command) {
    const char *library = rt_command_text(command, "opencl");
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) rt_probe_write(&now->json, library);
    return status;
}

static rt_status kernels_save(session *now, const char *path, rt_error *error) {
    uint32_t programs;
    uint64_t bytes;
    rt_status status = rt_kernels_save(now->engine, path, &programs, &bytes, error);
    if (status != RT_OK) return status;
    rt_json_unsigned(&now->json, "programs", programs);
    rt_json_unsigned(&now->json, "bytes", bytes);
    return RT_OK;
}

static rt_status save_kernels_handle(session *now, rt_command *command) {
    const char *path = rt_command_required(command, "file");
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) status = needs_engine(now, command);
    return status == RT_OK ? kernels_save(now, path, command->error) : status;
}

static rt_status trial_handle(session *now, rt_command *command) {
    rt_trial trial;
    rt_trial_take(&trial, command);
    rt_status status = rt_command_finish(command);
    if (status == RT_OK) status = needs_engine(now, command);
    if (status == RT_OK) status = rt_trial_run(now->engine, &trial, &now->json, command->error);
    return status;
}

/* `farmrt run`: load, inputs, run, outputs, in one command. */
static rt_status whole_run(session *now, rt_command *command, const rt_options *options, const run_request *request,
                           const char *kernels_path) {
    size_t size;
    rt_command all = *command; /* its input: and output: pairs are taken only now */
    rt_status status = engine_load(now, options, command->error);
    for (rt_pair *pair; status == RT_OK && (pair = rt_command_next(&all, "input:")) != NULL;) {
        status = tensor_transfer(now, RT_ROLE_INPUT, pair->key + strlen("input:"), pair->value, &size, command->error);
    }
    if (status == RT_OK) status = run_measure(now, request, command->error);
    for (rt_pair *pair; status == RT_OK && (pair = rt_command_next(&all, "output:")) != NULL;) {
        status = tensor_transfer(now, RT_ROLE_OUTPUT, pair->key + strlen("output:"), pair->value, &size, command->error);
    }
    if (status == RT_OK && kernels_path != NULL) status = kernels_save(now, kernels_path, command->error);
    return status;
}

static rt_status whole_run_handle(session *now, rt_command *command) {
    rt_options options;
    run_request request;
    load_options(now, command, &options);
    run_options(command, &request);
    const char *kernels_path = rt_command_text(command, "save_kernels");
    rt_command taken = *command;
    while (rt_command_next(&taken, "input:") != NULL || rt_command_next(&taken, "output:") != NULL) continue;
    rt_status status = rt_command_finish(&taken);
    return status == RT_OK ? whole_run(now, command, &options, &request, kernels_path) : status;
}

/* --- the loop --- */

typedef struct {
    const char *name;
    handler *handle;
} entry;

static const entry serve_commands[] = {
    {"probe", probe_handle}, {"load", load_handle},   {"input", input_handle},   {"output", output_handle},
    {"run", run_handle},     {"trial", trial_handle}, {"unload", unload_handle}, {"save_kernels", save_kernels_handle},
};
static const entry once_commands[] = {{"probe", probe_handle}, {"run", whole_run_handle}};

static rt_status dispatch(session *now, const entry *entries, size_t count, rt_command *command) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(entries[i].name, command->name) == 0) return entries[i].handle(now, command);
    }
    return rt_error_set(command->error, RT_BAD_COMMAND, "unknown command '%s'", command->name);
}

/* Sends what the handler wrote, or the error instead; false when nobody reads any more. */
static bool finish_answer(session *now, rt_status status, const rt_error *error) {
    if (status != RT_OK) {
        answer_begin(&now->json);
        error_write(&now->json, error);
    }
    return answer_send(now->answers, &now->json);
}

static bool line_answer(session *now, char *line) {
    rt_command command;
    rt_error error = {0};
    answer_begin(&now->json);
    rt_json_bool(&now->json, "ok", true);
    rt_status status = rt_command_parse(&command, line, &error);
    if (status == RT_OK) status = dispatch(now, serve_commands, RT_COUNT(serve_commands), &command);
    return finish_answer(now, status, &error);
}

/* Lines from standard input. */
typedef struct {
    char *text;
    size_t start, end;
    bool overlong; /* the line's beginning was dropped */
} reader;

/* The next line without its newline; NULL at the end of input. */
static char *line_read(reader *input) {
    for (;;) {
        char *line = input->text + input->start;
        char *newline = memchr(line, '\n', input->end - input->start);
        if (newline != NULL) {
            *newline = '\0';
            input->start = (size_t)(newline + 1 - input->text);
            return line;
        }
        memmove(input->text, line, input->end - input->start);
        input->end -= input->start;
        input->start = 0;
        if (input->end == MAX_LINE_BYTES) input->overlong = true, input->end = 0;
        ssize_t count = read(STDIN_FILENO, input->text + input->end, MAX_LINE_BYTES - input->end);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return NULL;
        input->end += (size_t)count;
    }
}

static bool overlong_answer(session *now) {
    rt_error error;
    rt_error_set(&error, RT_BAD_COMMAND, "a line of more than %d bytes", MAX_LINE_BYTES);
    return finish_answer(now, RT_BAD_COMMAND, &error);
}

static bool is_quit(const char *line) {
    size_t length = strcspn(line, " \t\r");
    return length == 4 && memcmp(line, "quit", 4) == 0;
}

static bool quit_answer(session *now) {
    answer_begin(&now->json);
    rt_json_bool(&now->json, "ok", true);
    return answer_send(now->answers, &now->json);
}

static void lines_answer(session *now, reader *input) {
    bool heard = true;
    for (char *line; heard && (line = line_read(input)) != NULL;) {
        if (is_quit(line)) {
            quit_answer(now);
            return;
        }
        heard = input->overlong ? overlong_answer(now) : line_answer(now, line);
        input->overlong = false;
    }
}

int rt_serve(int answers) {
    session now = {.answers = answers};
    reader input = {.text = rt_memory_allocate(MAX_LINE_BYTES, 1)};
    if (input.text == NULL) return RT_EXIT_FAILED;
    lines_answer(&now, &input);
    engine_unload(&now);
    rt_json_release(&now.json);
    rt_memory_free(input.text);
    return RT_EXIT_DONE;
}

int rt_serve_once(int answers, char **words, int count) {
    session now = {.answers = answers};
    rt_command command;
    rt_error error = {0};
    answer_begin(&now.json);
    rt_json_bool(&now.json, "ok", true);
    rt_status status = rt_command_from_words(&command, words, count, &error);
    if (status == RT_OK) status = dispatch(&now, once_commands, RT_COUNT(once_commands), &command);
    finish_answer(&now, status, &error);
    engine_unload(&now);
    rt_json_release(&now.json);
    if (status == RT_OK) return RT_EXIT_DONE;
    return status == RT_BAD_COMMAND ? RT_EXIT_USAGE : RT_EXIT_FAILED;
}
