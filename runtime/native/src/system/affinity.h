/* The cores that CPU operators run on: which ones a policy or a list names, whether this process may use them, and
 * what the kernel says that a thread really has. Without state; from any thread. */
#ifndef RT_AFFINITY_H
#define RT_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../include/farmrt.h"

/* Chosen cores; without a pin, all that the process may use, and threads are left where they are. A value. */
typedef struct {
    cpu_set_t set;
    bool is_pinned;
} rt_cores;

enum { RT_CORES_TEXT_BYTES = 512 };

/* Chooses the cores of a policy or, where `list` is given, those that it names (`4-7` or `0,2`). RT_UNSUPPORTED, with
 * what is in the way, where a core of the list does not exist, is offline or is not allowed to this process, and where
 * more threads are asked for than it has; RT_BAD_COMMAND for a list that cannot be read. */
rt_status rt_cores_choose(rt_cores *cores, rt_affinity affinity, const char *list, uint32_t threads, rt_error *error);

/* How many were chosen, at least 1. */
uint32_t rt_cores_count(const rt_cores *cores);

/* How many threads work on them: as many as were asked for, at most one for each pinned core; 0 asks for one each. */
uint32_t rt_cores_threads(const rt_cores *cores, uint32_t asked);

/* The cores as a list (`0-3,6`), cut to `size`; RT_CORES_TEXT_BYTES are enough for all that occur. */
void rt_cores_text(const cpu_set_t *set, char *text, size_t size);

/* The number by which the kernel knows the calling thread. */
int32_t rt_thread_id(void);

/* What the kernel says that a thread of this process may run on: Cpus_allowed_list of its status in /proc; empty where
 * that cannot be read. */
void rt_thread_cores_text(int32_t thread, char *text, size_t size);

#endif
