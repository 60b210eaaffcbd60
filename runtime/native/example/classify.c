/* An application that embeds farmrt: classifies one input and prints the five best classes.
 *
 *     cc -I. classify.c libfarmrt.a -lpthread -ldl -lm -o classify       # in build/farmrt/ABI, after `farm build`
 *     ./classify mobilenet_v1.plan mobilenet_v1.data input.raw [tuned.bin [kernels.bin [SOC]]]
 *
 * `input.raw` holds the model's first input, row-major, of its element type; the first output has to be of float32. The
 * two tuned files are those that `farm tune` collects; with them nothing is compiled, and the first run is fast too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "farmrt.h"

enum { SHOWN_CLASSES = 5 };

static int fail(const rt_error *error) {
    fprintf(stderr, "classify: %s: %s\n", rt_status_name(error->status), error->message);
    return 1;
}

static void *tensor_read(const char *path, const rt_tensor_info *tensor) {
    FILE *file = fopen(path, "rb");
    void *values = malloc(tensor->bytes);
    size_t found = file != NULL && values != NULL ? fread(values, 1, tensor->bytes, file) : 0;
    if (file != NULL) fclose(file);
    if (found == tensor->bytes) return values;
    fprintf(stderr, "classify: %s: %zu values of %s are needed\n", path, tensor->count, rt_type_name(tensor->type));
    free(values);
    return NULL;
}

static void best_print(float *scores, size_t count) {
    for (int shown = 0; shown < SHOWN_CLASSES && (size_t)shown < count; shown++) {
        size_t best = 0;
        for (size_t i = 1; i < count; i++) {
            if (scores[i] > scores[best]) best = i;
        }
        printf("%zu %.6f\n", best, (double)scores[best]);
        scores[best] = -1e30f;
    }
}

static int classify(rt_engine *engine, const char *input_path) {
    rt_error error;
    rt_tensor_info input, output;
    if (rt_engine_input_info(engine, 0, &input) != RT_OK || rt_engine_output_info(engine, 0, &output) != RT_OK)
        return 1;
    if (output.type != RT_FLOAT32)
        return fprintf(stderr, "classify: '%s' is of %s, not float32\n", output.name, rt_type_name(output.type)), 1;
    void *values = tensor_read(input_path, &input);
    float *scores = malloc(output.bytes);
    if (values == NULL || scores == NULL) return 1;
    rt_status status = rt_engine_input(engine, input.name, values, input.bytes, &error);
    if (status == RT_OK) status = rt_engine_run(engine, &error);
    if (status == RT_OK) status = rt_engine_output(engine, output.name, scores, output.bytes, &error);
    if (status == RT_OK) best_print(scores, output.count);
    free(values);
    free(scores);
    return status == RT_OK ? 0 : fail(&error);
}

static const char *optional(int count, char **words, int index) { return index < count ? words[index] : NULL; }

int main(int count, char **words) {
    rt_error error;
    rt_engine *engine;
    rt_usage usage;
    if (count < 4) {
        fprintf(stderr, "usage: classify PLAN DATA INPUT [TUNED [KERNELS [SOC]]]\n");
        return 2;
    }
    rt_options options = {
        .plan_path = words[1],
        .data_path = words[2],
        .tuned_path = optional(count, words, 4),
        .kernels_path = optional(count, words, 5),
        .soc = optional(count, words, 6),
    };
    if (rt_engine_create(&options, &engine, &error) != RT_OK) return fail(&error);
    rt_engine_usage(engine, &usage);
    printf("farmrt %s: tuned parameters: %s, %u used; compiled kernels: %s, %u loaded, %u built\n", rt_version(),
           usage.tuned_match, usage.tuned_used, usage.kernels_match, usage.kernels_loaded, usage.kernels_built);
    int status = classify(engine, words[3]);
    rt_engine_destroy(engine);
    return status;
}
