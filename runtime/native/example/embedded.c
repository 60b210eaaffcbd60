/* An application that needs no file: the plan and the weights of its model are part of it.
 *
 * With `model_graph_format: code` and `model_data_format: code` in the deployment file, `farm convert` makes the folder
 * build/LIBRARY/code/ABI that is called `code` here, with the header of each model:
 *
 *     cc -Icode -DMODEL_HEADER='"squeezenet_v11.host.cpu.h"' -DMODEL=squeezenet_v11_host_cpu_options \
 *         example/embedded.c code/libsqueezenet_v11.host.cpu.a code/libfarmrt.a -lpthread -ldl -lm -o embedded
 *     ./embedded < input.raw > output.raw
 *
 * Both are row-major, of the tensors' element types: the model's first input, and its first output.
 */
#include <stdio.h>
#include <stdlib.h>

#include MODEL_HEADER

static int fail(const rt_error *error) {
    fprintf(stderr, "embedded: %s: %s\n", rt_status_name(error->status), error->message);
    return 1;
}

static int infer(rt_engine *engine) {
    rt_error error;
    rt_tensor_info input, output;
    if (rt_engine_input_info(engine, 0, &input) != RT_OK || rt_engine_output_info(engine, 0, &output) != RT_OK)
        return 1;
    void *given = malloc(input.bytes);
    void *found = malloc(output.bytes);
    if (given == NULL || found == NULL) return 1;
    if (fread(given, 1, input.bytes, stdin) != input.bytes) {
        fprintf(stderr, "embedded: %zu values of %s are needed\n", input.count, rt_type_name(input.type));
        return 1;
    }
    rt_status status = rt_engine_input(engine, input.name, given, input.bytes, &error);
    if (status == RT_OK) status = rt_engine_run(engine, &error);
    if (status == RT_OK) status = rt_engine_output(engine, output.name, found, output.bytes, &error);
    if (status == RT_OK) fwrite(found, 1, output.bytes, stdout);
    free(given);
    free(found);
    return status == RT_OK ? 0 : fail(&error);
}

int main(void) {
    rt_error error;
    rt_engine *engine;
    rt_options options = {0};
    MODEL(&options);
    if (rt_engine_create(&options, &engine, &error) != RT_OK) return fail(&error);
    int status = infer(engine);
    rt_engine_destroy(engine);
    return status;
}
