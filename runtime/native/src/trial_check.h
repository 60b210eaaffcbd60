/* Comparison of a trial's output with what the step must write. */
#ifndef RT_TRIAL_CHECK_H
#define RT_TRIAL_CHECK_H

#include "engine.h"

typedef struct {
    double max_abs_error, max_abs_expected;
    uint64_t nan_count; /* elements that are not finite, or not comparable */
} rt_difference;

/* The expectation of a step, NULL where the plan has none. */
const rt_expect_record *rt_expectation_find(const rt_engine *engine, uint32_t step);

/* Fills what the step writes with NaN, so that a launch that leaves a part out is found. Only for plans whose tensors
 * share no memory, which those with expectations are. */
rt_status rt_output_poison(rt_engine *engine, const rt_expect_record *expect, rt_error *error);

/* Runs the steps behind the trial's up to the check step, and compares. */
rt_status rt_output_compare(rt_engine *engine, const rt_expect_record *expect, rt_difference *difference,
                            rt_error *error);

/* Whether so large a difference would spoil the trials of steps that read this one's output. */
bool rt_difference_spoils(const rt_difference *difference);

#endif
