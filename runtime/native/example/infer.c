/* An application that embeds farmrt: runs a model of any number of inputs and outputs, and times its rounds.
 *
 *     cc -I. infer.c libfarmrt.a -lpthread -ldl -lm -o infer       # in build/farmrt/ABI, after `farm build`
 *     ./infer plan=m.plan data=m.data input=a.raw input=b.raw output=c.raw [rounds=N] [warmup=N] \
 *         [tuned=FILE] [kernels=FILE] [operators=FILE] [soc=SOC] [limit_kernel_ms=X]
 *
 * A file for each input and output, in the model's order, row-major, of the tensor's element type; `./infer plan=m.plan
 * data=m.data tensors=1` lists names, types, shapes and bytes. It prints one fact a line, its name and its value. `farm
 * run --example` builds this for a unit, runs it there and compares the outputs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "farmrt.h"

/* The value of the index-th word `key=value`; NULL where there are fewer. */
static const char *word_value(char **words, const char *key, int index) {
    size_t length = strlen(key);
    for (; *words != NULL; words++) {
        if (strncmp(*words, key, length) == 0 && (*words)[length] == '=' && index-- == 0) return *words + length + 1;
    }
    return NULL;
}

static int word_number(char **words, const char *key, int otherwise) {
    const char *value = word_value(words, key, 0);
    return value != NULL ? atoi(value) : otherwise;
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int fail(const char *path, const rt_error *error) {
    const char *between = *path ? ": " : "";
    return fprintf(stderr, "infer: %s%s%s: %s\n", path, between, rt_status_name(error->status), error->message), 1;
}

/* Moves one tensor, of whatever type, between a file of just its bytes and the engine; 0 where that went well. */
static int tensor_move(rt_engine *engine, const rt_tensor_info *tensor, const char *path, int is_input) {
    rt_error error;
    void *values = malloc(tensor->bytes);
    FILE *file = fopen(path, is_input ? "rb" : "wb");
    size_t moved = 0;
    rt_status status = RT_OK;
    if (file != NULL && values != NULL && is_input) {
        moved = fread(values, 1, tensor->bytes, file);
        if (moved == tensor->bytes && fgetc(file) != EOF) moved++; /* it is longer */
        if (moved == tensor->bytes) status = rt_engine_input(engine, tensor->name, values, tensor->bytes, &error);
    } else if (file != NULL && values != NULL) {
        status = rt_engine_output(engine, tensor->name, values, tensor->bytes, &error);
        if (status == RT_OK) moved = fwrite(values, 1, tensor->bytes, file);
    }
    int closed = file != NULL ? fclose(file) : 0;
    free(values);
    if (status != RT_OK) return fail(path, &error);
    if (moved == tensor->bytes && closed == 0) return 0;
    return fprintf(stderr, "infer: %s: not the %zu bytes of '%s' (%zu elements of %s)\n", path, tensor->bytes,
                   tensor->name, tensor->count, rt_type_name(tensor->type)),
           1;
}

/* A line for each input, or each output: name, element type, shape and bytes. */
static void tensors_print(const rt_engine *engine, int is_input) {
    rt_tensor_info tensor;
    for (uint32_t i = 0; (is_input ? rt_engine_input_info : rt_engine_output_info)(engine, i, &tensor) == RT_OK; i++) {
        printf("%s %s %s ", is_input ? "input" : "output", tensor.name, rt_type_name(tensor.type));
        for (uint32_t axis = 0; axis < tensor.rank; axis++) printf("%s%u", axis > 0 ? "x" : "", tensor.shape[axis]);
        printf(" %zu\n", tensor.bytes);
    }
}

/* Moves all inputs, or all outputs that a file is named for. */
static int tensors_move(rt_engine *engine, char **words, int is_input) {
    rt_tensor_info tensor;
    for (int i = 0;; i++) {
        rt_status status = is_input ? rt_engine_input_info(engine, (uint32_t)i, &tensor)
                                    : rt_engine_output_info(engine, (uint32_t)i, &tensor);
        if (status != RT_OK) return 0; /* past the last */
        const char *path = word_value(words, is_input ? "input" : "output", i);
        if (path == NULL && is_input) return fprintf(stderr, "infer: no file for the input '%s'\n", tensor.name), 2;
        if (path != NULL && tensor_move(engine, &tensor, path, is_input) != 0) return 1;
    }
}

static int rounds_run(rt_engine *engine, int count, const char *fact) {
    rt_error error;
    for (int i = 0; i < count; i++) {
        double start_ms = now_ms();
        if (rt_engine_run(engine, &error) != RT_OK) return fail("", &error);
        printf("%s %.6f\n", fact, now_ms() - start_ms);
    }
    return 0;
}

static void usage_print(const rt_engine *engine) {
    rt_usage usage;
    rt_engine_usage(engine, &usage);
    printf("version %s\ntuned_match %s\ntuned_used %u\n", rt_version(), usage.tuned_match, usage.tuned_used);
    printf("kernels_match %s\nkernels_loaded %u\nkernels_built %u\n", usage.kernels_match, usage.kernels_loaded,
           usage.kernels_built);
}

int main(int count, char **words) {
    rt_error error;
    rt_engine *engine;
    (void)count;
    const char *limit = word_value(words, "limit_kernel_ms", 0);
    rt_options options = {
        .plan_path = word_value(words, "plan", 0),
        .data_path = word_value(words, "data", 0),
        .tuned_path = word_value(words, "tuned", 0),
        .kernels_path = word_value(words, "kernels", 0),
        .operators_path = word_value(words, "operators", 0),
        .soc = word_value(words, "soc", 0),
        .limit_kernel_ms = limit != NULL ? atof(limit) : 0,
    };
    if (options.plan_path == NULL || options.data_path == NULL) {
        fprintf(stderr, "usage: infer plan=FILE data=FILE input=FILE ... output=FILE ... [rounds=N] [warmup=N]\n");
        return 2;
    }
    double start_ms = now_ms();
    if (rt_engine_create(&options, &engine, &error) != RT_OK) return fail("", &error);
    printf("init_ms %.6f\n", now_ms() - start_ms);
    if (word_number(words, "tensors", 0)) {
        tensors_print(engine, 1);
        tensors_print(engine, 0);
        rt_engine_destroy(engine);
        return 0;
    }
    int status = tensors_move(engine, words, 1);
    if (status == 0) status = rounds_run(engine, 1, "first_ms");
    if (status == 0) status = rounds_run(engine, word_number(words, "warmup", 0), "warmup_ms");
    if (status == 0) status = rounds_run(engine, word_number(words, "rounds", 1), "round_ms");
    if (status == 0) status = tensors_move(engine, words, 0);
    if (status == 0) usage_print(engine);
    rt_engine_destroy(engine);
    return status;
}
