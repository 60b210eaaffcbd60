#include "answer.h"

#include <stddef.h>

#include "../system/file.h"
#include "../opencl/opencl.h"

void rt_answer_begin(rt_json *json) {
    rt_json_reset(json);
    rt_json_object_begin(json, NULL);
    rt_json_bool(json, "ok", true);
}

void rt_answer_fail(rt_json *json, const rt_error *error) {
    rt_json_reset(json);
    rt_json_object_begin(json, NULL);
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

bool rt_answer_send(int descriptor, rt_json *json) {
    static const char no_memory[] =
        "{\"ok\": false, \"error\": \"no_memory\", \"message\": \"not enough memory for the answer\"}\n";
    const char *line = NULL;
    size_t length;
    if (json != NULL) {
        rt_json_object_end(json);
        line = rt_json_line(json, &length);
    }
    if (line == NULL) return rt_descriptor_write(descriptor, no_memory, sizeof no_memory - 1);
    return rt_descriptor_write(descriptor, line, length);
}
