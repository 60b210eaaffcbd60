/* A trial: one step of the loaded plan with another launch, timed and compared with what it must write. */
#ifndef RT_TRIAL_H
#define RT_TRIAL_H

#include "command.h"
#include "engine.h"
#include "json.h"

typedef struct {
    uint32_t step, reps, warmup, block;
    const char *kernel, *options; /* NULL: as in the plan */
    uint32_t global_size[3], local_size[3];
    uint32_t global_rank, local_rank; /* 0: as in the plan */
    bool check;
} rt_trial;

void rt_trial_take(rt_trial *trial, rt_command *command);

/* Adds the answer's members to the open object. Where the plan has an expectation for the step, a wrong output is
 * replaced by the plan's own, so that trials stay independent of each other. */
rt_status rt_trial_run(rt_engine *engine, const rt_trial *trial, rt_json *json, rt_error *error);

#endif
