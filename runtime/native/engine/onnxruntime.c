/* ONNX Runtime by its C API: OrtGetApiBase gives a table of functions, to which versions only append, so that a place in
 * it (onnxruntime_c_api.h) is a function's for good. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../src/system/arithmetic.h"
#include "../src/system/errors.h"
#include "engine.h"

enum { VERSION = 12, NODES_VERSION = 24, LOG_ERRORS = 3, ALL_OPTIMISATIONS = 99, ARENA = 1, DEFAULT_MEMORY = 0 };

typedef void *status; /* NULL is success */

#define FUNCTIONS(X)                                                                                              \
    X(2, GetErrorMessage, const char *, (status))                                                                 \
    X(3, CreateEnv, status, (int level, const char *name, void **environment))                                    \
    X(7, CreateSession, status, (void *environment, const char *path, void *options, void **session))             \
    X(9, Run, status,                                                                                             \
      (void *session, void *options, const char *const *input_names, void *const *inputs, size_t input_count,     \
       const char *const *output_names, size_t output_count, void **outputs))                                     \
    X(10, CreateSessionOptions, status, (void **options))                                                         \
    X(22, SetSessionLogSeverityLevel, status, (void *options, int level))                                         \
    X(23, SetSessionGraphOptimizationLevel, status, (void *options, int level))                                   \
    X(24, SetIntraOpNumThreads, status, (void *options, int threads))                                             \
    X(49, CreateTensorWithDataAsOrtValue, status,                                                                 \
      (void *memory, void *data, size_t bytes, const int64_t *shape, size_t rank, int type, void **value))        \
    X(51, GetTensorMutableData, status, (void *value, void **data))                                               \
    X(60, GetTensorElementType, status, (void *info, int *type))                                                  \
    X(61, GetDimensionsCount, status, (void *info, size_t *rank))                                                 \
    X(62, GetDimensions, status, (void *info, int64_t *shape, size_t rank))                                       \
    X(65, GetTensorTypeAndShape, status, (void *value, void **info))                                              \
    X(69, CreateCpuMemoryInfo, status, (int allocator, int type, void **memory))                                  \
    X(93, ReleaseStatus, void, (status))                                                                          \
    X(96, ReleaseValue, void, (void *value))                                                                      \
    X(130, AddSessionConfigEntry, status, (void *options, const char *key, const char *value))                    \
    X(216, SessionOptionsAppendExecutionProvider, status,                                                         \
      (void *options, const char *name, const char *const *keys, const char *const *values, size_t count))

#define NODES_FUNCTIONS(X)                                                                                        \
    X(407, Session_GetEpGraphAssignmentInfo, status, (void *session, void ***subgraphs, size_t *count))           \
    X(408, EpAssignedSubgraph_GetEpName, status, (void *subgraph, const char **name))                             \
    X(409, EpAssignedSubgraph_GetNodes, status, (void *subgraph, void ***nodes, size_t *count))

#define MEMBER(place, name, result, parameters) result(*name) parameters;
#define LOOK_UP(place, name, result, parameters) rt_function_store(&ort.name, table[place]);

static struct {
    FUNCTIONS(MEMBER)
    NODES_FUNCTIONS(MEMBER)
} ort;

static struct {
    const void *const *(*table)(uint32_t version);
    const char *(*version)(void);
} const *base;

static void *session, *inputs[RT_MAX_WORDS], *outputs[RT_MAX_WORDS];
static const char *input_names[RT_MAX_WORDS], *output_names[RT_MAX_WORDS];

/* Fills the error with what ONNX Runtime says, if that is no success. */
static rt_status told(rt_error *error, rt_status status, void *said) {
    if (said == NULL) return RT_OK;
    rt_error_set(error, status, "%s", ort.GetErrorMessage(said));
    ort.ReleaseStatus(said);
    return status;
}

/* Fills the table; RT_UNSUPPORTED where the library is none, or one of before version 1.12. */
static rt_status library_open(void *library, rt_error *error) {
    const void *(*get_base)(void) = NULL;
    rt_function_store(&get_base, dlsym(library, "OrtGetApiBase"));
    if (get_base == NULL) return rt_error_set(error, RT_UNSUPPORTED, "the library has no OrtGetApiBase");
    base = get_base();
    int version = atoi(base->version() + strcspn(base->version(), ".") + 1); /* 1.VERSION.PATCH */
    const void *const *table = base->table(version < NODES_VERSION ? VERSION : NODES_VERSION);
    if (table == NULL) return rt_error_set(error, RT_UNSUPPORTED, "version %s is too old: 1.12", base->version());
    FUNCTIONS(LOOK_UP)
    if (version >= NODES_VERSION) {
        NODES_FUNCTIONS(LOOK_UP)
    }
    return RT_OK;
}

/* Appends NNAPI, which has a function of its own, where the library was built with it. */
static rt_status nnapi_append(const rt_request *request, void *options, rt_error *error) {
    status (*append)(void *options, uint32_t flags) = NULL;
    rt_function_store(&append, dlsym(request->library, "OrtSessionOptionsAppendExecutionProvider_Nnapi"));
    if (append == NULL) return rt_error_set(error, RT_UNSUPPORTED, "this build has no execution provider NNAPI");
    return told(error, RT_UNSUPPORTED, append(options, 0));
}

/* Appends the provider by its name, with its options; the CPU's is always there. Some have a short name that is not the
 * long one without `ExecutionProvider`: a name without it is tried as it is, and as the long one's beginning. */
static rt_status provider_append(const rt_request *request, void *options, const char *provider, rt_error *error) {
    static const char prefix[] = "provider.", suffix[] = "ExecutionProvider";
    const char *keys[RT_MAX_WORDS], *values[RT_MAX_WORDS];
    char name[128];
    size_t count = 0;
    for (size_t i = 0; i < request->option_count; i++) {
        if (strncmp(request->keys[i], prefix, sizeof prefix - 1) != 0) continue;
        keys[count] = request->keys[i] + sizeof prefix - 1;
        values[count++] = request->values[i];
    }
    snprintf(name, sizeof name, "%s%s", provider, strstr(provider, suffix) != NULL ? "" : suffix);
    if (strncmp(name, "CPUE", 4) == 0) return RT_OK;
    if (strncasecmp(name, "NNAPIE", 6) == 0) return nnapi_append(request, options, error);
    void *said = ort.SessionOptionsAppendExecutionProvider(options, provider, keys, values, count);
    rt_status status = told(error, RT_UNSUPPORTED, said);
    if (status == RT_OK || strcmp(name, provider) == 0) return status;
    said = ort.SessionOptionsAppendExecutionProvider(options, name, keys, values, count);
    if (said == NULL) return RT_OK;
    ort.ReleaseStatus(said); /* the first error is about the user's own word */
    return status;
}

static rt_status entry_add(void *options, const char *key, const char *value, rt_error *error) {
    return told(error, RT_UNSUPPORTED, ort.AddSessionConfigEntry(options, key, value));
}

static rt_status options_fill(const rt_request *request, void *options, rt_error *error) {
    const char *provider = "CPU";
    rt_status status = told(error, RT_UNSUPPORTED, ort.SetSessionLogSeverityLevel(options, LOG_ERRORS));
    if (status == RT_OK) {
        status = told(error, RT_UNSUPPORTED, ort.SetSessionGraphOptimizationLevel(options, ALL_OPTIMISATIONS));
    }
    if (status == RT_OK) status = told(error, RT_UNSUPPORTED, ort.SetIntraOpNumThreads(options, request->threads));
    /* Without it products of unsigned and signed bytes overflow 16 bits on x86 CPUs that lack VNNI. */
    if (status == RT_OK) status = entry_add(options, "session.x64quantprecision", "1", error);
    if (status == RT_OK && ort.Session_GetEpGraphAssignmentInfo != NULL) {
        status = entry_add(options, "session.record_ep_graph_assignment_info", "1", error);
    }
    for (size_t i = 0; i < request->option_count && status == RT_OK; i++) {
        const char *key = request->keys[i], *value = request->values[i];
        if (strcmp(key, "provider") == 0) provider = value;
        if (strncmp(key, "session.", 8) == 0) status = entry_add(options, key, value, error);
    }
    return status == RT_OK ? provider_append(request, options, provider, error) : status;
}

/* Makes the values of the inputs, which lie where the files were read to. */
static rt_status inputs_make(const rt_request *request, rt_error *error) {
    void *memory;
    rt_status status = told(error, RT_UNSUPPORTED, ort.CreateCpuMemoryInfo(ARENA, DEFAULT_MEMORY, &memory));
    for (size_t i = 0; i < request->input_count && status == RT_OK; i++) {
        const rt_array *array = &request->inputs[i].array;
        void *data;
        memcpy(&data, &array->data, sizeof data); /* which it does not write */
        void *said = ort.CreateTensorWithDataAsOrtValue(memory, data, rt_array_bytes(array), array->shape, array->rank,
                                                        array->element->onnxruntime, inputs + i);
        status = told(error, RT_UNSUPPORTED, said);
        input_names[i] = request->inputs[i].name;
    }
    for (size_t i = 0; i < request->output_count; i++) output_names[i] = request->outputs[i].name;
    return status;
}

static rt_status model_load(rt_request *request, rt_error *error) {
    void *environment, *options;
    rt_status status = library_open(request->library, error);
    if (status == RT_OK) status = told(error, RT_UNSUPPORTED, ort.CreateEnv(LOG_ERRORS, "farm", &environment));
    if (status == RT_OK) status = told(error, RT_UNSUPPORTED, ort.CreateSessionOptions(&options));
    if (status == RT_OK) status = options_fill(request, options, error);
    if (status == RT_OK) {
        status = told(error, RT_UNSUPPORTED, ort.CreateSession(environment, request->model, options, &session));
    }
    return status == RT_OK ? inputs_make(request, error) : status;
}

static const char *version_tell(void) { return base->version(); }

/* How many nodes all subgraphs of a provider have, of which only the first writes its member. */
static void nodes_write(rt_json *json) {
    void **subgraphs = NULL, **unused;
    size_t count = 0;
    if (ort.Session_GetEpGraphAssignmentInfo == NULL) return;
    if (ort.Session_GetEpGraphAssignmentInfo(session, &subgraphs, &count) != NULL) return;
    for (size_t i = 0; i < count; i++) {
        const char *name, *other;
        size_t nodes = 0, of_subgraph;
        bool is_first = true;
        if (ort.EpAssignedSubgraph_GetEpName(subgraphs[i], &name) != NULL) return;
        for (size_t j = 0; j < count; j++) {
            if (ort.EpAssignedSubgraph_GetEpName(subgraphs[j], &other) != NULL || strcmp(name, other) != 0) continue;
            if (ort.EpAssignedSubgraph_GetNodes(subgraphs[j], &unused, &of_subgraph) == NULL) nodes += of_subgraph;
            is_first = is_first && j >= i;
        }
        if (is_first) rt_json_unsigned(json, name, nodes);
    }
}

static rt_status round_run(const rt_request *request, rt_error *error) {
    for (size_t i = 0; i < request->output_count; i++) {
        if (outputs[i] != NULL) ort.ReleaseValue(outputs[i]);
        outputs[i] = NULL;
    }
    return told(error, RT_CPU, ort.Run(session, NULL, input_names, inputs, request->input_count, output_names,
                                       request->output_count, outputs));
}

/* Fills the array of one output. */
static rt_status output_read(void *value, rt_tensor *tensor, rt_error *error) {
    void *info, *data;
    int type;
    rt_array *array = &tensor->array;
    rt_status status = told(error, RT_CPU, ort.GetTensorTypeAndShape(value, &info));
    if (status == RT_OK) status = told(error, RT_CPU, ort.GetTensorMutableData(value, &data));
    if (status == RT_OK) status = told(error, RT_CPU, ort.GetTensorElementType(info, &type));
    if (status == RT_OK) status = told(error, RT_CPU, ort.GetDimensionsCount(info, &array->rank));
    if (status != RT_OK) return status;
    array->element = rt_element_find(type, 0);
    array->data = data;
    if (array->element == NULL || array->rank > RT_ARRAY_RANK) {
        return rt_error_set(error, RT_UNSUPPORTED, "output %s is of type %d, which is not told", tensor->name, type);
    }
    return told(error, RT_CPU, ort.GetDimensions(info, array->shape, array->rank));
}

static rt_status outputs_read(rt_request *request, rt_error *error) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < request->output_count && status == RT_OK; i++) {
        status = output_read(outputs[i], request->outputs + i, error);
    }
    return status;
}

const rt_engine_library rt_onnxruntime = {
    "onnxruntime", "OrtGetApiBase", model_load, version_tell, nodes_write, round_run, outputs_read,
};
