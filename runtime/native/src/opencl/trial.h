/* A trial: one step of the loaded plan with another launch, timed and compared with what it must write. Without state:
 * what a trial makes is released before it returns, but for the program, which the engine keeps. */
#ifndef RT_TRIAL_H
#define RT_TRIAL_H

#include "../../include/farmrt.h"
#include "../serve/command.h"
#include "../serve/json.h"
#include "../run/parts.h"
#include "trial_times.h"

/* Takes the command's values; texts lie in the command's line. Bad ones are the command's to tell. */
void rt_trial_take(rt_trial *trial, rt_command *command);

/* Runs a trial and adds the answer's members to the open object. Where the plan has an expectation for the step, a
 * wrong output is replaced by the plan's own, also after a failure, so that trials stay independent of each other.
 * RT_BAD_COMMAND for a launch that cannot be asked for; else it fails as rt_steps_make_kernel and rounds do. */
rt_status rt_trial_run(const rt_parts *parts, const rt_trial *trial, rt_json *json, rt_error *error);

#endif
