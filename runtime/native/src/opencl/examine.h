/* What can be believed of a device, tried out: its clock, what launches cost, memory shared with the host, limits.
 * Without state: what an examination makes is released before it returns.
 */
#ifndef RT_EXAMINE_H
#define RT_EXAMINE_H

#include <stdint.h>

#include "../../include/farmrt.h"
#include "../serve/command.h"
#include "../serve/json.h"

/* What to examine: `point` is an index of examine.c's table. Texts lie in the command's line. A value. */
typedef struct {
    const char *opencl_library;
    uint32_t point;
} rt_examination;

/* Takes the command's values. Bad ones are the command's to tell. */
void rt_examine_take(rt_examination *wanted, rt_command *command);

/* Tries one point and adds its members to the open object. A device that fails at what is tried is an answer; an error
 * is what keeps it from being tried: no OpenCL, no context, a kernel that cannot be built (RT_BUILD_FAILED). A device
 * may hang or crash here: call this in a process that may be lost. */
rt_status rt_examine_run(const rt_examination *wanted, rt_json *json, rt_error *error);

#endif
