/* What farmrt does, in lines on standard error; off unless the program, its environment or a client turns it on, so
 * that a library prints nothing.
 *
 * State: the level, for the whole process; from any thread.
 */
#ifndef RT_LOG_H
#define RT_LOG_H

#include <stdbool.h>

#include "errors.h"

/* Info: commands, devices, programs, threads. Debug: also each launch that a plan is given, and how it is split. */
typedef enum { RT_LOG_OFF = 0, RT_LOG_INFO, RT_LOG_DEBUG } rt_log_level;

/* The words for the levels, in their order. */
extern const char *const rt_log_words[3];

/* Sets the level by its word; false, and nothing is changed, where it is none. */
bool rt_log_set_word(const char *word);

/* Sets the level. */
void rt_log_set(rt_log_level level);

/* Writes a line, without its end, where the level is at least this. */
void rt_log(rt_log_level level, const char *format, ...) RT_PRINTF(2, 3);

#endif
