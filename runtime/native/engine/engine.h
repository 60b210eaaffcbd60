/* An engine's C library as the runner sees it: loads a model, runs rounds, and shows its outputs.
 *
 * The library is opened by the runner, so that this program links to none. A process loads one model once; what an
 * engine holds goes with the process.
 */
#ifndef RT_ENGINE_H
#define RT_ENGINE_H

#include <stddef.h>

#include "../src/serve/json.h"
#include "array.h"

/* The most of each kind of word that a request has. */
enum { RT_MAX_WORDS = 512 };

/* A tensor of the model, by its name, and its file. A value. */
typedef struct {
    const char *name, *path;
    rt_array array; /* of an output: since the last round */
    size_t place;   /* the engine's own */
} rt_tensor;

/* What is asked for. `threads` 0: as many as the engine takes. Options are the engine's own. A value. */
typedef struct {
    void *library;
    const char *model;
    int threads;
    size_t option_count, input_count, output_count;
    const char *keys[RT_MAX_WORDS], *values[RT_MAX_WORDS];
    rt_tensor inputs[RT_MAX_WORDS], outputs[RT_MAX_WORDS];
} rt_request;

/* An engine: its word, a function that its library exports, and the calls in their order. A value. */
typedef struct {
    const char *name, *symbol;

    /* Loads the model for inputs that are read; RT_UNSUPPORTED, or RT_BAD_COMMAND for an option that it lacks. */
    rt_status (*load)(rt_request *request, rt_error *error);

    /* The library's version. */
    const char *(*version)(void);

    /* Writes how many nodes run where, as members of the open object, where the library tells it. */
    void (*nodes)(rt_json *json);

    /* Runs one round; RT_CPU where it fails. */
    rt_status (*run)(const rt_request *request, rt_error *error);

    /* Fills the arrays of the request's outputs, which stay valid to the end. */
    rt_status (*outputs)(rt_request *request, rt_error *error);
} rt_engine_library;

extern const rt_engine_library rt_onnxruntime, rt_litert, rt_tflite;

/* Stores a function of a library, or any pointer, in a function pointer, between which C has no conversion. */
static inline void rt_function_store(void *slot, const void *symbol) { __builtin_memcpy(slot, &symbol, sizeof symbol); }

#endif
