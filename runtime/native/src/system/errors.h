/* Errors: filled where they arise, and passed up unchanged to whoever called the API or gave the command.
 *
 * rt_error (farmrt.h) is a value of the caller's; NULL means that nobody wants to know. The functions here and
 * rt_opencl_check fill it. Every function that takes an rt_error returns the status that it filled in.
 */
#ifndef RT_ERRORS_H
#define RT_ERRORS_H

#include <stdint.h>

#include "../../include/farmrt.h"

#define RT_PRINTF(at, first) __attribute__((format(printf, at, first)))

/* Fills `error` (may be NULL) with a status and a message, of no step and no OpenCL call; returns `status`. */
rt_status rt_error_set(rt_error *error, rt_status status, const char *format, ...) RT_PRINTF(3, 4);

/* The same for an allocation that failed; `what` ends the sentence "not enough memory for". Returns RT_NO_MEMORY. */
rt_status rt_error_no_memory(rt_error *error, const char *what);

/* Adds to a filled error (may be NULL) the step that it is about. */
void rt_error_set_step(rt_error *error, uint32_t step);

#endif
