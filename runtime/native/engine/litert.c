/* LiteRT 2.2 by its C API, which libLiteRt.so exports: a compiled model with buffers for what goes in and out of its first
 * signature, which models without one are given. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/system/allocation.h"
#include "../src/system/errors.h"
#include "delegate.h"
#include "engine.h"

enum { ON_CPU = 1, READ = 0, WRITE = 1, RANK = 8, RANK_BITS = 0x7f };

/* LiteRtRankedTensorType; a model's tensors have no strides. A value. */
typedef struct {
    int element;
    uint32_t rank; /* in the lower bits */
    int32_t shape[RANK];
    uint32_t strides[RANK];
} tensor_type;

typedef int make_function(void *context, void *environment, const void *accelerator, void *options, void **delegate);

#define FUNCTIONS(X)                                                                                              \
    X(CreateEnvironment, (int count, const void *options, void **environment))                                    \
    X(CreateModelFromFile, (void *environment, const char *path, void **model))                                   \
    X(CreateOptions, (void **options))                                                                            \
    X(SetOptionsHardwareAccelerators, (void *options, int set))                                                   \
    X(CreateOpaqueOptions, (const char *name, void *text, void (*release)(void *), void **opaque))                \
    X(AddOpaqueOptions, (void *options, void *opaque))                                                            \
    X(CreateAccelerator, (void **accelerator))                                                                    \
    X(SetAcceleratorGetName, (void *accelerator, int (*get)(const void *accelerator, const char **name)))         \
    X(SetAcceleratorGetVersion, (void *accelerator, int (*get)(const void *accelerator, int version[3])))         \
    X(SetAcceleratorGetHardwareSupport, (void *accelerator, int (*get)(const void *accelerator, int *set)))       \
    X(SetIsAcceleratorDelegateResponsibleForJitCompilation,                                                       \
      (void *accelerator, int (*get)(const void *accelerator, bool *is)))                                         \
    X(SetDelegateFunction, (void *accelerator, make_function *make))                                              \
    X(RegisterAccelerator, (void *environment, void *accelerator, void *data, void (*release)(void *)))           \
    X(WrapDelegate, (void *delegate, void (*release)(void *), void **wrapper))                                    \
    X(DestroyDelegateWrapper, (void *wrapper)) /* which versions lack whose other calls have other arguments */    \
    X(CreateCompiledModel, (void *environment, void *model, void *options, void **compiled))                      \
    X(CompiledModelIsFullyAccelerated, (void *compiled, bool *all))                                               \
    X(GetModelSubgraph, (void *model, size_t index, void **subgraph))                                             \
    X(GetNumSubgraphOps, (void *subgraph, size_t *count))                                                         \
    X(GetModelSignature, (void *model, size_t index, void **signature))                                           \
    X(GetNumSignatureInputs, (void *signature, size_t *count))                                                    \
    X(GetNumSignatureOutputs, (void *signature, size_t *count))                                                   \
    X(GetSignatureInputName, (void *signature, size_t index, const char **name))                                  \
    X(GetSignatureOutputName, (void *signature, size_t index, const char **name))                                 \
    X(GetSignatureInputTensorByIndex, (void *signature, size_t index, void **tensor))                             \
    X(GetSignatureOutputTensorByIndex, (void *signature, size_t index, void **tensor))                            \
    X(GetTensorName, (void *tensor, const char **name))                                                           \
    X(GetRankedTensorType, (void *tensor, tensor_type *type))                                                     \
    X(GetCompiledModelInputBufferRequirements, (void *compiled, size_t signature, size_t index, void **needs))    \
    X(GetCompiledModelOutputBufferRequirements, (void *compiled, size_t signature, size_t index, void **needs))   \
    X(CreateManagedTensorBufferFromRequirements,                                                                  \
      (void *environment, const tensor_type *type, void *needs, void **buffer))                                   \
    X(LockTensorBuffer, (void *buffer, void **data, int mode))                                                    \
    X(UnlockTensorBuffer, (void *buffer))                                                                         \
    X(RunCompiledModel, (void *compiled, size_t signature, size_t input_count, void **inputs, size_t output_count,\
                         void **outputs))

#define MEMBER(name, parameters) int(*name) parameters;
#define LOOK_UP(name, parameters)                                                                                  \
    {                                                                                                              \
        const void *found = dlsym(library, "LiteRt" #name);                                                        \
        if (found == NULL) return rt_error_set(error, RT_UNSUPPORTED, "no LiteRt" #name ", which LiteRT 2.2 has"); \
        rt_function_store(&litert.name, found);                                                                    \
    }
#define CALL(name, ...) called(error, "LiteRt" #name, litert.name(__VA_ARGS__))

static struct {
    FUNCTIONS(MEMBER)
} litert;

/* What goes in, or out: the calls that tell of it, the request's tensors, and buffers in the signature's order. */
typedef struct {
    const char *word;
    int (*count)(void *signature, size_t *count);
    int (*name)(void *signature, size_t index, const char **name);
    int (*tensor)(void *signature, size_t index, void **tensor);
    int (*needs)(void *compiled, size_t signature, size_t index, void **needs);
    rt_tensor *tensors;
    size_t tensor_count, buffer_count;
    void *buffers[RT_MAX_WORDS];
} side;

static void *environment, *model, *compiled, *delegate;
static side into = {.word = "input"}, out_of = {.word = "output"};
static bool is_builtin;

/* Fills the error with a call that failed, if it is no success; why, LiteRT writes to the log. */
static rt_status called(rt_error *error, const char *name, int code) {
    return code == 0 ? RT_OK : rt_error_set(error, RT_UNSUPPORTED, "%s fails with status %d", name, code);
}

static rt_status library_open(void *library, rt_error *error) {
    FUNCTIONS(LOOK_UP)
    return RT_OK;
}

static int name_tell(const void *accelerator, const char **name) { return (void)accelerator, *name = "external", 0; }

static int version_tell(const void *accelerator, int version[3]) {
    return (void)accelerator, memset(version, 0, 3 * sizeof *version), 0;
}

static int hardware_tell(const void *accelerator, int *set) { return (void)accelerator, *set = ON_CPU, 0; }

static int compilation_tell(const void *accelerator, bool *is) { return (void)accelerator, *is = true, 0; }

static void delegate_keep(void *of) { (void)of; } /* which lives as long as the process */

static int delegate_give(void *context, void *of, const void *accelerator, void *options, void **wrapper) {
    (void)context, (void)of, (void)accelerator, (void)options;
    return litert.WrapDelegate(delegate, delegate_keep, wrapper);
}

/* Registers the delegate of a library as an accelerator, which is how LiteRT applies one; as one of the CPU, since it
 * would ask another for its own kind of buffers. */
static rt_status delegate_register(const rt_request *request, const char *path, rt_error *error) {
    void *accelerator;
    rt_status status = rt_delegate_open(request, path, &delegate, error);
    if (status == RT_OK) status = CALL(CreateAccelerator, &accelerator);
    if (status == RT_OK) status = CALL(SetAcceleratorGetName, accelerator, name_tell);
    if (status == RT_OK) status = CALL(SetAcceleratorGetVersion, accelerator, version_tell);
    if (status == RT_OK) status = CALL(SetAcceleratorGetHardwareSupport, accelerator, hardware_tell);
    if (status == RT_OK) {
        status = CALL(SetIsAcceleratorDelegateResponsibleForJitCompilation, accelerator, compilation_tell);
    }
    if (status == RT_OK) status = CALL(SetDelegateFunction, accelerator, delegate_give);
    return status == RT_OK ? CALL(RegisterAccelerator, environment, accelerator, NULL, NULL) : status;
}

/* Makes the options of the CPU: a text in TOML. */
static rt_status cpu_options_add(const rt_request *request, void *options, rt_error *error) {
    char text[64], *copy;
    void *opaque;
    const char *kernels = is_builtin ? "kernel_mode = 2\n" : "";
    snprintf(text, sizeof text, "num_threads = %d\n%s", request->threads > 0 ? request->threads : -1, kernels);
    if ((copy = rt_memory_copy_string(text)) == NULL) return rt_error_no_memory(error, "the options");
    rt_status status = CALL(CreateOpaqueOptions, "xnnpack", copy, rt_memory_free, &opaque);
    return status == RT_OK ? CALL(AddOpaqueOptions, options, opaque) : status;
}

static rt_status options_make(const rt_request *request, void **options, rt_error *error) {
    const char *word = "xnnpack";
    for (size_t i = 0; i < request->option_count; i++) {
        if (strcmp(request->keys[i], "delegate") == 0) word = request->values[i];
    }
    is_builtin = strcmp(word, "xnnpack") != 0; /* a delegate leaves nodes to the CPU's own kernels, as in Python */
    bool is_library = is_builtin && strcmp(word, "none") != 0;
    rt_status status = CALL(CreateOptions, options);
    if (status == RT_OK) status = CALL(SetOptionsHardwareAccelerators, *options, ON_CPU);
    if (status == RT_OK) status = cpu_options_add(request, *options, error);
    return status == RT_OK && is_library ? delegate_register(request, word, error) : status;
}

/* The tensor of the request that has the signature's or the file's name for it; NULL where there is none. */
static rt_tensor *tensor_find(const side *of, const char *name, const char *other) {
    for (size_t i = 0; i < of->tensor_count; i++) {
        if (strcmp(of->tensors[i].name, name) == 0 || strcmp(of->tensors[i].name, other) == 0) return of->tensors + i;
    }
    return NULL;
}

/* Fills an array's type and shape. */
static rt_status array_describe(const tensor_type *type, const char *name, rt_array *array, rt_error *error) {
    array->element = rt_element_find(-1, type->element);
    array->rank = type->rank & RANK_BITS;
    for (size_t i = 0; i < array->rank && i < RANK; i++) {
        array->shape[i] = type->shape[i];
        if (type->shape[i] < 0) return rt_error_set(error, RT_UNSUPPORTED, "the shape of %s is not fixed", name);
    }
    if (array->element != NULL && array->rank <= RANK) return RT_OK;
    return rt_error_set(error, RT_UNSUPPORTED, "%s is of type %d", name, type->element);
}

/* Writes an input's values into its buffer. */
static rt_status values_write(const rt_tensor *tensor, const rt_array *described, void *buffer, rt_error *error) {
    void *data;
    size_t bytes = rt_array_bytes(described);
    if (tensor == NULL) return rt_error_set(error, RT_UNSUPPORTED, "the file has an input that is not given");
    if (bytes != rt_array_bytes(&tensor->array)) {
        return rt_error_set(error, RT_UNSUPPORTED, "input %s has %zu bytes in the file", tensor->name, bytes);
    }
    rt_status status = CALL(LockTensorBuffer, buffer, &data, WRITE);
    if (status != RT_OK) return status;
    memcpy(data, tensor->array.data, bytes);
    return CALL(UnlockTensorBuffer, buffer);
}

/* Makes the buffer of the side's index-th tensor, and tells the request's tensor, if it is one, its place. */
static rt_status buffer_make(side *made, void *signature, size_t index, rt_error *error) {
    const char *name = "", *other = "";
    void *tensor = NULL, *needs = NULL;
    tensor_type type = {0};
    rt_array described = {0};
    rt_status status = called(error, "LiteRtGetSignatureName", made->name(signature, index, &name));
    if (status == RT_OK) status = called(error, "LiteRtGetSignatureTensor", made->tensor(signature, index, &tensor));
    if (status == RT_OK) status = CALL(GetTensorName, tensor, &other);
    if (status == RT_OK) status = CALL(GetRankedTensorType, tensor, &type);
    if (status == RT_OK) status = array_describe(&type, name, &described, error);
    if (status == RT_OK) status = called(error, "LiteRtGetRequirements", made->needs(compiled, 0, index, &needs));
    void **buffer = made->buffers + index;
    if (status == RT_OK) status = CALL(CreateManagedTensorBufferFromRequirements, environment, &type, needs, buffer);
    if (status != RT_OK) return status;
    rt_tensor *of = tensor_find(made, name, other);
    if (of != NULL) of->place = index + 1;
    if (made == &into) return values_write(of, &described, *buffer, error);
    if (of != NULL) of->array = described;
    return RT_OK;
}

/* Makes all buffers of a side. */
static rt_status side_make(side *made, void *signature, rt_error *error) {
    rt_status status = called(error, "LiteRtGetNumSignature", made->count(signature, &made->buffer_count));
    if (status == RT_OK && made->buffer_count > RT_MAX_WORDS) {
        return rt_error_set(error, RT_UNSUPPORTED, "the file has more than %d %ss", RT_MAX_WORDS, made->word);
    }
    for (size_t i = 0; i < made->buffer_count && status == RT_OK; i++) status = buffer_make(made, signature, i, error);
    for (size_t i = 0; i < made->tensor_count && status == RT_OK; i++) {
        if (made->tensors[i].place != 0) continue;
        status = rt_error_set(error, RT_UNSUPPORTED, "the file has no %s %s", made->word, made->tensors[i].name);
    }
    return status;
}

static rt_status sides_make(rt_request *request, rt_error *error) {
    void *signature = NULL;
    into.count = litert.GetNumSignatureInputs, out_of.count = litert.GetNumSignatureOutputs;
    into.name = litert.GetSignatureInputName, out_of.name = litert.GetSignatureOutputName;
    into.tensor = litert.GetSignatureInputTensorByIndex, out_of.tensor = litert.GetSignatureOutputTensorByIndex;
    into.needs = litert.GetCompiledModelInputBufferRequirements;
    out_of.needs = litert.GetCompiledModelOutputBufferRequirements;
    into.tensors = request->inputs, into.tensor_count = request->input_count;
    out_of.tensors = request->outputs, out_of.tensor_count = request->output_count;
    rt_status status = CALL(GetModelSignature, model, 0, &signature);
    if (status == RT_OK) status = side_make(&into, signature, error);
    return status == RT_OK ? side_make(&out_of, signature, error) : status;
}

static rt_status model_load(rt_request *request, rt_error *error) {
    void *options;
    rt_status status = library_open(request->library, error);
    if (status == RT_OK) status = CALL(CreateEnvironment, 0, NULL, &environment);
    if (status == RT_OK) status = CALL(CreateModelFromFile, environment, request->model, &model);
    if (status == RT_OK) status = options_make(request, &options, error);
    if (status == RT_OK) status = CALL(CreateCompiledModel, environment, model, options, &compiled);
    return status == RT_OK ? sides_make(request, error) : status;
}

static const char *version_unknown(void) { return ""; }

/* LiteRT tells nodes of XNNPACK only where it took all; a delegate's are counted when it is applied. */
static void nodes_write(rt_json *json) {
    void *subgraph;
    size_t nodes, taken = 0;
    bool all = false;
    if (delegate != NULL) {
        rt_delegate_nodes_write(json);
        return;
    }
    if (litert.GetModelSubgraph(model, 0, &subgraph) != 0 || litert.GetNumSubgraphOps(subgraph, &nodes) != 0) return;
    if (!is_builtin && (litert.CompiledModelIsFullyAccelerated(compiled, &all) != 0 || !all)) return;
    if (all) taken = nodes;
    rt_json_unsigned(json, "delegate", taken);
    rt_json_unsigned(json, "cpu", nodes - taken);
}

static rt_status round_run(const rt_request *request, rt_error *error) {
    (void)request;
    return CALL(RunCompiledModel, compiled, 0, into.buffer_count, into.buffers, out_of.buffer_count, out_of.buffers);
}

static rt_status outputs_read(rt_request *request, rt_error *error) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < request->output_count && status == RT_OK; i++) {
        rt_tensor *tensor = request->outputs + i;
        void *data = NULL;
        status = CALL(LockTensorBuffer, out_of.buffers[tensor->place - 1], &data, READ);
        tensor->array.data = data;
    }
    return status;
}

const rt_engine_library rt_litert = {
    "litert", "LiteRtDestroyDelegateWrapper", model_load, version_unknown, nodes_write, round_run, outputs_read,
};
