/* Of tensorflow/lite/core/c/common.h the beginnings of structs are declared here that delegates of every version share.
 * The delegate's function `prepare` is replaced by one that calls it and looks at the graph before and after. */
#include "delegate.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "../src/system/errors.h"

enum { BUILTIN_DELEGATE = 51 };

typedef struct {
    int size;
    int data[];
} int_array;

typedef struct {
    void (*functions[5])(void);
    int32_t builtin_code;
} registration;

typedef struct context context;
typedef struct delegate delegate;

struct context {
    size_t tensors_size;
    int (*execution_plan)(context *, int_array **plan);
    void *tensors, *implementation;
    void (*functions[3])(void);
    int (*node_and_registration)(context *, int index, void **node, registration **registration);
};

struct delegate {
    void *data;
    int (*prepare)(context *, delegate *);
};

typedef delegate *create_function(const char *const *keys, const char *const *values, size_t count,
                                  void (*report)(const char *));

static int (*own_prepare)(context *, delegate *);
static size_t nodes, left;
static char refusal[512];

static void refusal_keep(const char *text) { snprintf(refusal, sizeof refusal, "%s", text); }

/* Counts the nodes that are to run, but those that stand for what a delegate took. */
static size_t nodes_count(context *of) {
    int_array *plan = NULL;
    size_t count = 0;
    if (of->execution_plan(of, &plan) != 0) return 0;
    for (int i = 0; i < plan->size; i++) {
        void *node;
        registration *found;
        if (of->node_and_registration(of, plan->data[i], &node, &found) != 0) return 0;
        count += found->builtin_code != BUILTIN_DELEGATE;
    }
    return count;
}

static int prepare_counting(context *of, delegate *self) {
    nodes = nodes_count(of);
    int status = own_prepare(of, self);
    left = nodes_count(of);
    return status;
}

rt_status rt_delegate_open(const rt_request *request, const char *path, void **made, rt_error *error) {
    static const char prefix[] = "delegate.";
    const char *keys[RT_MAX_WORDS], *values[RT_MAX_WORDS];
    create_function *create = NULL;
    size_t count = 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return rt_error_set(error, RT_UNSUPPORTED, "%s", dlerror());
    rt_function_store(&create, dlsym(library, "tflite_plugin_create_delegate"));
    if (create == NULL) return rt_error_set(error, RT_UNSUPPORTED, "%s is no library of a delegate", path);
    for (size_t i = 0; i < request->option_count; i++) {
        if (strncmp(request->keys[i], prefix, sizeof prefix - 1) != 0) continue;
        keys[count] = request->keys[i] + sizeof prefix - 1;
        values[count++] = request->values[i];
    }
    delegate *found = create(keys, values, count, refusal_keep);
    if (found == NULL) return rt_error_set(error, RT_UNSUPPORTED, "the delegate is not made: %s", refusal);
    own_prepare = found->prepare;
    if (own_prepare != NULL) found->prepare = prepare_counting;
    *made = found;
    return RT_OK;
}

void rt_delegate_nodes_write(rt_json *json) {
    if (nodes == 0) return;
    rt_json_unsigned(json, "delegate", nodes - left);
    rt_json_unsigned(json, "cpu", left);
}
