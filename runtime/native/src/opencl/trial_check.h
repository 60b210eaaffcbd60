/* Comparison of a trial's output with what the step must write. Without state. */
#ifndef RT_TRIAL_CHECK_H
#define RT_TRIAL_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../run/parts.h"

/* How far an output is from what it must be. A value. */
typedef struct {
    double max_abs_error, max_abs_expected;
    uint64_t nan_count; /* elements that are not finite, or not comparable */
} rt_difference;

/* The expectation of a step, NULL where the plan has none. */
const rt_expect_record *rt_expectation_find(const rt_plan *plan, uint32_t step);

/* Fills what the step writes with NaN, so that a launch that leaves a part out is found; a step that reads what it
 * writes is left alone. Only for plans whose tensors share no memory, which those with expectations are. RT_OPENCL or
 * RT_NO_MEMORY. */
rt_status rt_output_poison(const rt_parts *parts, const rt_expect_record *expect, rt_error *error);

/* Runs the steps behind the trial's up to the check step, and compares. Fails as rt_executor_steps does, or with
 * RT_NO_MEMORY; `difference` is then as it was. */
rt_status rt_output_compare(const rt_parts *parts, const rt_expect_record *expect, rt_difference *difference,
                            rt_error *error);

/* Whether so large a difference would spoil the trials of steps that read this one's output. */
bool rt_difference_spoils(const rt_difference *difference);

#endif
