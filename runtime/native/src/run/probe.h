/* What the machine is: CPU, memory, OpenCL. Without state. */
#ifndef RT_PROBE_H
#define RT_PROBE_H

#include "../serve/json.h"

/* Adds the members of docs/farmrt.md to the open object. `opencl_library`: see rt_opencl_open. A machine without OpenCL
 * is an answer, not an error. */
void rt_probe_write(rt_json *json, const char *opencl_library);

#endif
