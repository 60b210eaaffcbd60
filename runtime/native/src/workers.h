/* A pool of threads that share a loop. */
#ifndef RT_WORKERS_H
#define RT_WORKERS_H

#include "base.h"

typedef struct rt_workers rt_workers;

/* One turn of the loop; `worker` counts from 0 and is never used by two turns at once. */
typedef void rt_turn(const void *context, uint32_t turn, uint32_t worker);

/* `threads` 0: as many as there are cores of the affinity. The caller is one of them. */
rt_status rt_workers_start(rt_workers **workers, uint32_t threads, rt_affinity affinity, rt_error *error);
void rt_workers_stop(rt_workers *workers);
uint32_t rt_workers_count(const rt_workers *workers);

/* Around runs: the caller stays on the cores of the affinity, as the other threads do. */
void rt_workers_enter(rt_workers *workers);
void rt_workers_leave(rt_workers *workers);

/* Runs the turns 0 .. count - 1 in any order and waits for all. */
void rt_workers_run(rt_workers *workers, uint32_t count, rt_turn *turn, const void *context);

/* Memory of each worker for intermediate results, aligned to 64. */
rt_status rt_workers_reserve(rt_workers *workers, uint64_t bytes, rt_error *error);
void *rt_workers_scratch(const rt_workers *workers, uint32_t worker);

#endif
