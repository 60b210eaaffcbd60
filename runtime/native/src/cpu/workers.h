/* A pool of threads that share a loop.
 *
 * State: an rt_workers, with the threads, their cores and their scratch memory. One thread, its owner, may start a
 * loop; it is worker 0 itself.
 */
#ifndef RT_WORKERS_H
#define RT_WORKERS_H

#include <stddef.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../system/affinity.h"

typedef struct rt_workers rt_workers;

/* One turn of the loop, on any thread; `worker` counts from 0 and is never used by two turns at once. */
typedef void rt_turn(const void *context, uint32_t turn, uint32_t worker);

/* Starts the threads, for rt_workers_stop. `threads` 0: as many as there are cores; these are copied. The caller is one
 * of them. RT_NO_MEMORY where there is none, or no thread can be started; `*workers` is NULL then. */
rt_status rt_workers_start(rt_workers **workers, uint32_t threads, const rt_cores *cores, rt_error *error);

/* Ends the threads and releases all; never within a loop. NULL is ignored. */
void rt_workers_stop(rt_workers *workers);

/* Workers, the caller included; and the cores that were chosen for them. */
uint32_t rt_workers_count(const rt_workers *workers);
const rt_cores *rt_workers_cores(const rt_workers *workers);

/* The cores that the kernel lets a worker run on while it works, as rt_thread_cores_text; never within a loop. */
void rt_workers_cores_text(rt_workers *workers, uint32_t index, char *text, size_t size);

/* Around runs: the caller stays on the chosen cores, as the other threads do. */
void rt_workers_enter(rt_workers *workers);
void rt_workers_leave(rt_workers *workers);

/* Runs the turns 0 .. count - 1 in any order and waits for all, but for no thread that has no turn in hand; what they
 * wrote can be read then. */
void rt_workers_run(rt_workers *workers, uint32_t count, rt_turn *turn, const void *context);

/* Sees to it that each worker has so much memory for intermediate results, aligned to 64; what it had is lost.
 * RT_NO_MEMORY. */
rt_status rt_workers_reserve(rt_workers *workers, uint64_t bytes, rt_error *error);

/* The memory of a worker, valid until more is reserved; uninitialised. */
void *rt_workers_scratch(const rt_workers *workers, uint32_t worker);

#endif
