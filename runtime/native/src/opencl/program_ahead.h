/* A program that a thread of its own builds while the device is used for something else.
 *
 * State: an rt_program_ahead, with the thread and its build. One thread at a time calls these functions; the builder
 * touches nothing but its build until it is joined.
 */
#ifndef RT_PROGRAM_AHEAD_H
#define RT_PROGRAM_AHEAD_H

#include <stdbool.h>

#include "program_build.h"

typedef struct rt_program_ahead rt_program_ahead;

/* Starts a build, of which it keeps a copy with its own text of the options, for rt_program_ahead_end. NULL where there
 * is no memory or no thread: then nothing is built ahead, and nothing is lost. */
rt_program_ahead *rt_program_ahead_start(const rt_program_build *build);

/* Whether the compiler is still at work. */
bool rt_program_ahead_is_running(const rt_program_ahead *ahead);

/* Waits for the compiler, however long it takes, and releases the thread. What came of the build is the caller's, the
 * text of the options (rt_memory_free) included. */
rt_program_build rt_program_ahead_end(rt_program_ahead *ahead);

#endif
