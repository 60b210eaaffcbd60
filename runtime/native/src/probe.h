/* What the machine is: CPU, memory, OpenCL. */
#ifndef RT_PROBE_H
#define RT_PROBE_H

#include "json.h"

/* Adds the members of docs/farmrt.md to the open object. A machine without OpenCL is an answer, not an error. */
void rt_probe_write(rt_json *json, const char *opencl_library);

#endif
