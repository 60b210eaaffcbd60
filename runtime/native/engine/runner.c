/* Runs a model in an engine's C library, and answers as farm/engines/unit_program.py does:
 *
 *     engine ENGINE LIBRARY model FILE [threads N] [rounds N] [warmup N] [option KEY VALUE ...]
 *         input NAME FILE ... output NAME FILE ...
 *
 * A line of JSON once the model is loaded, and one at the end; between them `progress`, once a second at most. What
 * libraries print goes to the standard error.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/serve/json.h"
#include "../src/system/allocation.h"
#include "../src/system/arithmetic.h"
#include "../src/system/clock.h"
#include "../src/system/errors.h"
#include "../src/system/exit_status.h"
#include "../src/system/file.h"
#include "../src/system/process_memory.h"
#include "engine.h"

enum { PROGRESS_NS = 1000000000 };

static const rt_engine_library *const libraries[] = {&rt_onnxruntime, &rt_litert, &rt_tflite};

/* How many rounds, and their times with those of the first one and the warm-up before them. A value. */
typedef struct {
    size_t warmup, rounds;
    uint64_t *times_ns;
} rounds;

static bool count_read(const char *word, size_t *count) {
    char *end;
    long read = strtol(word, &end, 10);
    *count = (size_t)read;
    return *word != '\0' && *end == '\0' && read >= 0 && read <= 1000000;
}

static bool tensor_append(rt_tensor *tensors, size_t *count, const char *name, const char *path) {
    if (*count == RT_MAX_WORDS) return false;
    tensors[(*count)++] = (rt_tensor){.name = name, .path = path};
    return true;
}

/* Reads the words that go with a key; returns how many it took, 0 where they are none of ours. */
static int word_read(char **words, int count, rt_request *request, rounds *of) {
    size_t threads;
    const char *key = words[0];
    if (count < 2) return 0;
    if (strcmp(key, "model") == 0) return request->model = words[1], 2;
    if (strcmp(key, "rounds") == 0) return count_read(words[1], &of->rounds) ? 2 : 0;
    if (strcmp(key, "warmup") == 0) return count_read(words[1], &of->warmup) ? 2 : 0;
    if (strcmp(key, "threads") == 0) {
        if (!count_read(words[1], &threads)) return 0;
        return request->threads = (int)threads, 2;
    }
    if (count < 3) return 0;
    if (strcmp(key, "input") == 0) return tensor_append(request->inputs, &request->input_count, words[1], words[2]) ? 3 : 0;
    if (strcmp(key, "output") == 0) return tensor_append(request->outputs, &request->output_count, words[1], words[2]) ? 3 : 0;
    if (strcmp(key, "option") != 0 || request->option_count == RT_MAX_WORDS) return 0;
    request->keys[request->option_count] = words[1];
    request->values[request->option_count++] = words[2];
    return 3;
}

/* Sends a line that was written; false when nobody reads any more. */
static bool line_send(int answers, rt_json *json) {
    size_t length;
    rt_json_object_end(json);
    const char *line = rt_json_line(json, &length);
    bool sent = line != NULL && rt_descriptor_write(answers, line, length);
    rt_json_reset(json);
    rt_json_object_begin(json, NULL);
    return sent;
}

static bool refusal_send(int answers, rt_json *json, const char *stage, const char *message) {
    rt_json_string(json, "stage", stage);
    rt_json_string(json, "error", message);
    return line_send(answers, json);
}

/* Reads the inputs, whose files stay open. */
static rt_status inputs_read(rt_request *request, rt_error *error) {
    rt_status status = RT_OK;
    const rt_bytes *file;
    for (size_t i = 0; i < request->input_count && status == RT_OK; i++) {
        status = rt_array_read(request->inputs[i].path, &file, &request->inputs[i].array, error);
    }
    return status;
}

static rt_status rounds_run(const rt_engine_library *engine, const rt_request *request, rounds *of, int answers,
                            rt_error *error) {
    static const char progress[] = "progress\n";
    uint64_t told_ns = rt_clock_ns();
    for (size_t i = 0; i < 1 + of->warmup + of->rounds; i++) {
        uint64_t begin_ns = rt_clock_ns();
        rt_status status = engine->run(request, error);
        uint64_t end_ns = rt_clock_ns();
        if (status != RT_OK) return status;
        of->times_ns[i] = end_ns - begin_ns;
        if (end_ns - told_ns <= PROGRESS_NS) continue;
        if (!rt_descriptor_write(answers, progress, sizeof progress - 1)) return rt_error_set(error, RT_IO, "nobody reads");
        told_ns = end_ns;
    }
    return RT_OK;
}

static rt_status outputs_write(const rt_engine_library *engine, rt_request *request, rt_error *error) {
    rt_status status = engine->outputs(request, error);
    for (size_t i = 0; i < request->output_count && status == RT_OK; i++) {
        status = rt_array_write(request->outputs[i].path, &request->outputs[i].array, error);
    }
    return status;
}

static void figures_write(rt_json *json, const rounds *of) {
    rt_process_memory memory = rt_process_memory_read();
    rt_json_ms(json, "first_ms", of->times_ns[0]);
    rt_json_array_begin(json, "samples_ms");
    for (size_t i = 0; i < of->rounds; i++) rt_json_ms(json, NULL, of->times_ns[1 + of->warmup + i]);
    rt_json_array_end(json);
    if (memory.peak_bytes == 0) {
        rt_json_null(json, "peak_bytes");
    } else {
        rt_json_unsigned(json, "peak_bytes", memory.peak_bytes);
    }
    rt_json_string(json, "peak_since", memory.since_restart ? "load" : "start");
}

/* Loads, runs and answers; false when nobody reads any more. */
static bool request_serve(const rt_engine_library *engine, rt_request *request, rounds *of, int answers, rt_json *json) {
    rt_error error = {0};
    rt_json_object_begin(json, NULL);
    rt_status status = inputs_read(request, &error);
    if (status != RT_OK) return refusal_send(answers, json, "run", error.message);
    rt_process_memory_restart();
    uint64_t begin_ns = rt_clock_ns();
    if (engine->load(request, &error) != RT_OK) return refusal_send(answers, json, "load", error.message);
    uint64_t init_ns = rt_clock_ns() - begin_ns;
    rt_json_string(json, "version", engine->version());
    rt_json_ms(json, "init_ms", init_ns);
    rt_json_object_begin(json, "nodes");
    engine->nodes(json);
    rt_json_object_end(json);
    if (!line_send(answers, json)) return false;
    status = rounds_run(engine, request, of, answers, &error);
    if (status == RT_OK) status = outputs_write(engine, request, &error);
    if (status != RT_OK) return refusal_send(answers, json, "run", error.message);
    figures_write(json, of);
    return line_send(answers, json);
}

/* The engine of a name whose library this is; where it is none of them, the first one, which says what it lacks. */
static const rt_engine_library *engine_find(const char *name, void *library) {
    const rt_engine_library *found = NULL;
    for (size_t i = RT_COUNT(libraries); i-- > 0;) {
        if (strcmp(name, libraries[i]->name) != 0) continue;
        if (library != NULL && dlsym(library, libraries[i]->symbol) != NULL) return libraries[i];
        found = libraries[i];
    }
    return found;
}

int main(int count, char **words) {
    static rt_request request;
    rounds of = {0};
    int answers = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    request.library = count > 2 ? dlopen(words[2], RTLD_NOW | RTLD_LOCAL) : NULL;
    const rt_engine_library *engine = count > 2 ? engine_find(words[1], request.library) : NULL;
    int taken = engine != NULL;
    for (int at = 3; at < count && taken != 0; at += taken) taken = word_read(words + at, count - at, &request, &of);
    of.times_ns = rt_memory_allocate(1 + of.warmup + of.rounds, sizeof *of.times_ns);
    rt_json *json = rt_json_create();
    if (taken == 0 || request.model == NULL || of.times_ns == NULL || json == NULL || answers < 0) {
        return fputs("usage: engine ENGINE LIBRARY model FILE [threads N] [rounds N] ...\n", stderr), RT_EXIT_USAGE;
    }
    bool sent;
    if (request.library == NULL) {
        rt_json_object_begin(json, NULL);
        sent = refusal_send(answers, json, "import", dlerror());
    } else {
        sent = request_serve(engine, &request, &of, answers, json);
    }
    _exit(sent ? RT_EXIT_DONE : RT_EXIT_FAILED); /* past the libraries' destructors, which have no part in this */
}
