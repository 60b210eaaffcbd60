/* Rounds of the loaded plan, timed: the command `run`. */
#ifndef RT_MEASURE_H
#define RT_MEASURE_H

#include "command.h"
#include "engine.h"
#include "json.h"

typedef struct {
    uint32_t rounds, warmup;
    bool profile;
} rt_run_request;

void rt_run_take(rt_run_request *request, rt_command *command);
/* Runs the warm-up and the rounds, and adds the answer's members to the open object. */
rt_status rt_run_measure(rt_engine *engine, const rt_run_request *request, rt_json *json, rt_error *error);

#endif
