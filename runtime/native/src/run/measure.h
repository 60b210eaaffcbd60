/* Rounds of the loaded plan, timed: the command `run`. Without state. */
#ifndef RT_MEASURE_H
#define RT_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../serve/command.h"
#include "../serve/json.h"
#include "parts.h"

/* What to measure. A value. */
typedef struct {
    uint32_t rounds, warmup;
    bool profile;
} rt_run_request;

/* Takes the command's values. Bad ones are the command's to tell. */
void rt_run_take(rt_run_request *request, rt_command *command);

/* Runs the warm-up and the rounds, and adds the answer's members to the open object; none where a round fails, as
 * rt_executor_round does. RT_NO_MEMORY where there is none for the times. */
rt_status rt_run_measure(const rt_parts *parts, const rt_run_request *request, rt_json *json, rt_error *error);

#endif
