/* TensorFlow Lite, and LiteRT before 2.2, by the C API of tensorflow/lite/core/c/c_api.h, which libtensorflowlite_jni.so
 * and libtensorflowlite_c.so export. Of itself an interpreter has XNNPACK take what it can; how much, nothing tells. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "../src/system/errors.h"
#include "delegate.h"
#include "engine.h"

/* The functions that every version has, and those of signatures, which came later. */
#define FUNCTIONS(X)                                                                        \
    X(Version, const char *, (void))                                                        \
    X(ModelCreateFromFile, void *, (const char *path))                                      \
    X(InterpreterOptionsCreate, void *, (void))                                             \
    X(InterpreterOptionsSetNumThreads, void, (void *options, int32_t threads))              \
    X(InterpreterOptionsAddDelegate, void, (void *options, void *delegate))                 \
    X(InterpreterCreate, void *, (const void *model, const void *options))                  \
    X(InterpreterAllocateTensors, int, (void *interpreter))                                 \
    X(InterpreterGetInputTensorCount, int32_t, (const void *interpreter))                   \
    X(InterpreterGetInputTensor, void *, (const void *interpreter, int32_t index))          \
    X(InterpreterGetOutputTensorCount, int32_t, (const void *interpreter))                  \
    X(InterpreterGetOutputTensor, void *, (const void *interpreter, int32_t index))         \
    X(InterpreterInvoke, int, (void *interpreter))                                          \
    X(TensorType, int, (const void *tensor))                                                \
    X(TensorNumDims, int32_t, (const void *tensor))                                         \
    X(TensorDim, int32_t, (const void *tensor, int32_t axis))                               \
    X(TensorByteSize, size_t, (const void *tensor))                                         \
    X(TensorData, void *, (const void *tensor))                                             \
    X(TensorName, const char *, (const void *tensor))
#define SIGNATURE_FUNCTIONS(X)                                                              \
    X(InterpreterGetSignatureCount, int32_t, (const void *interpreter))                     \
    X(InterpreterGetSignatureKey, const char *, (const void *interpreter, int32_t index))   \
    X(InterpreterGetSignatureRunner, void *, (const void *interpreter, const char *key))    \
    X(SignatureRunnerGetInputTensor, void *, (void *runner, const char *name))              \
    X(SignatureRunnerGetOutputTensor, void *, (void *runner, const char *name))

#define MEMBER(name, result, parameters) result(*name) parameters;
#define LOOK_UP(name, result, parameters) rt_function_store(&tflite.name, dlsym(library, "TfLite" #name));
#define REQUIRE(name, result, parameters) \
    if (tflite.name == NULL) return rt_error_set(error, RT_UNSUPPORTED, "the library has no TfLite" #name);
#define IS_THERE(name, result, parameters) tflite.name != NULL &&

static struct {
    FUNCTIONS(MEMBER)
    SIGNATURE_FUNCTIONS(MEMBER)
} tflite;

static void *interpreter, *runner; /* of the only signature; NULL: there are more, or none */
static const void *outputs[RT_MAX_WORDS];

static rt_status library_open(void *library, rt_error *error) {
    FUNCTIONS(LOOK_UP)
    SIGNATURE_FUNCTIONS(LOOK_UP)
    FUNCTIONS(REQUIRE)
    return RT_OK;
}

static rt_status options_make(const rt_request *request, void **options, rt_error *error) {
    const char *word = "xnnpack";
    void *delegate = NULL;
    for (size_t i = 0; i < request->option_count; i++) {
        if (strcmp(request->keys[i], "delegate") == 0) word = request->values[i];
    }
    if (strcmp(word, "none") == 0) {
        return rt_error_set(error, RT_BAD_COMMAND, "delegate=none: before LiteRT 2.2 XNNPACK cannot be left out");
    }
    *options = tflite.InterpreterOptionsCreate();
    if (request->threads > 0) tflite.InterpreterOptionsSetNumThreads(*options, request->threads);
    if (strcmp(word, "xnnpack") == 0) return RT_OK;
    rt_status status = rt_delegate_open(request, word, &delegate, error);
    if (status == RT_OK) tflite.InterpreterOptionsAddDelegate(*options, delegate);
    return status;
}

/* Fills an array's type, shape and data. */
static rt_status array_read(const void *tensor, rt_array *array, rt_error *error) {
    int32_t rank = tflite.TensorNumDims(tensor);
    *array = (rt_array){.element = rt_element_find(-1, tflite.TensorType(tensor)), .data = tflite.TensorData(tensor)};
    for (int32_t i = 0; i < rank && i < RT_ARRAY_RANK; i++) array->shape[array->rank++] = tflite.TensorDim(tensor, i);
    if (array->element != NULL && rank <= RT_ARRAY_RANK && rt_array_bytes(array) == tflite.TensorByteSize(tensor)) {
        return RT_OK;
    }
    const char *name = tflite.TensorName(tensor);
    return rt_error_set(error, RT_UNSUPPORTED, "%s is of type %d", name, tflite.TensorType(tensor));
}

typedef void *find_function(void *runner, const char *name);

/* The tensor of the request that the file, or its signature, has a tensor for; NULL where there is none. */
static rt_tensor *tensor_find(rt_tensor *tensors, size_t count, const void *tensor, find_function *find) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(tensors[i].name, tflite.TensorName(tensor)) == 0) return tensors + i;
        if (runner != NULL && find(runner, tensors[i].name) == tensor) return tensors + i;
    }
    return NULL;
}

static rt_status inputs_write(rt_request *request, rt_error *error) {
    for (int32_t i = 0; i < tflite.InterpreterGetInputTensorCount(interpreter); i++) {
        void *tensor = tflite.InterpreterGetInputTensor(interpreter, i);
        size_t bytes = tflite.TensorByteSize(tensor);
        rt_tensor *of = tensor_find(request->inputs, request->input_count, tensor, tflite.SignatureRunnerGetInputTensor);
        if (of == NULL) return rt_error_set(error, RT_UNSUPPORTED, "the file has an input that is not given");
        if (bytes != rt_array_bytes(&of->array)) {
            return rt_error_set(error, RT_UNSUPPORTED, "input %s has %zu bytes in the file", of->name, bytes);
        }
        memcpy(tflite.TensorData(tensor), of->array.data, bytes);
    }
    return RT_OK;
}

static rt_status outputs_find(rt_request *request, rt_error *error) {
    for (int32_t i = 0; i < tflite.InterpreterGetOutputTensorCount(interpreter); i++) {
        const void *tensor = tflite.InterpreterGetOutputTensor(interpreter, i);
        rt_tensor *of = tensor_find(request->outputs, request->output_count, tensor, tflite.SignatureRunnerGetOutputTensor);
        if (of != NULL) outputs[of - request->outputs] = tensor;
    }
    for (size_t i = 0; i < request->output_count; i++) {
        const char *name = request->outputs[i].name;
        if (outputs[i] == NULL) return rt_error_set(error, RT_UNSUPPORTED, "the file has no output %s", name);
    }
    return RT_OK;
}

static rt_status model_load(rt_request *request, rt_error *error) {
    void *options = NULL, *model;
    rt_status status = library_open(request->library, error);
    if (status == RT_OK) status = options_make(request, &options, error);
    if (status != RT_OK) return status;
    /* Why one of these fails, the library writes to the log. */
    if ((model = tflite.ModelCreateFromFile(request->model)) == NULL) {
        return rt_error_set(error, RT_UNSUPPORTED, "TfLiteModelCreateFromFile fails");
    }
    if ((interpreter = tflite.InterpreterCreate(model, options)) == NULL) {
        return rt_error_set(error, RT_UNSUPPORTED, "TfLiteInterpreterCreate fails");
    }
    if (SIGNATURE_FUNCTIONS(IS_THERE) tflite.InterpreterGetSignatureCount(interpreter) == 1) {
        runner = tflite.InterpreterGetSignatureRunner(interpreter, tflite.InterpreterGetSignatureKey(interpreter, 0));
    }
    if (tflite.InterpreterAllocateTensors(interpreter) != 0) {
        return rt_error_set(error, RT_UNSUPPORTED, "TfLiteInterpreterAllocateTensors fails");
    }
    status = inputs_write(request, error);
    return status == RT_OK ? outputs_find(request, error) : status;
}

static const char *version_tell(void) { return tflite.Version(); }

static rt_status round_run(const rt_request *request, rt_error *error) {
    (void)request;
    return tflite.InterpreterInvoke(interpreter) == 0 ? RT_OK : rt_error_set(error, RT_CPU, "TfLiteInterpreterInvoke fails");
}

static rt_status outputs_read(rt_request *request, rt_error *error) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < request->output_count && status == RT_OK; i++) {
        status = array_read(outputs[i], &request->outputs[i].array, error);
    }
    return status;
}

const rt_engine_library rt_tflite = {
    "litert", "TfLiteInterpreterCreate", model_load, version_tell, rt_delegate_nodes_write, round_run, outputs_read,
};
