/* How long the threads of this process ran, and how long they waited for a core, from /proc. Without state. */
#ifndef RT_THREAD_TIMES_H
#define RT_THREAD_TIMES_H

#include <stdbool.h>
#include <stdint.h>

/* Sums over all threads that live now, those of an OpenCL driver included, each since it began. A value. */
typedef struct {
    uint64_t running_ns, waiting_ns;
} rt_thread_times;

/* Reads them, which takes some ten microseconds a thread; false where the kernel does not tell. */
bool rt_thread_times_read(rt_thread_times *times);

/* What both sums have grown by between two readings; a thread that ended in between takes its time with it, so that a
 * sum may come out too small, never below 0. */
rt_thread_times rt_thread_times_between(const rt_thread_times *before, const rt_thread_times *after);

/* How often the kernel took the core from the calling thread, which was not done with it; 0 where it does not tell. */
uint64_t rt_thread_preemptions(void);

/* How long the calling thread was ready to run and had no core, since it began; 0 where the kernel does not tell. */
uint64_t rt_thread_waited_ns(void);

#endif
