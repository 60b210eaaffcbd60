/* Launches follow each other within microseconds, and a thread of PoCL's that has no work group left sleeps until the
 * next: it then comes some 5 to 10 us late, when launches of 10 us are over. So it looks on for a while.
 *
 * PoCL's threads wait for work by pthread_cond_wait, which the program defines: libraries that are loaded take that one.
 * POSIX lets it return for no reason, so it lets go of the mutex for a moment and returns, which makes its caller look
 * whether there is work, and only sleeps when that has gone on for too long.
 */
#include "pocl_threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../system/affinity.h"
#include "../system/clock.h"
#include "../system/topology.h"

static atomic_bool looking_on;

/* Whether the kernel lets each thread have a core. PoCL counts cores from 0, so that all have to be allowed, and threads
 * too, so that processes with fewer threads than cores would meet on the first ones. */
static bool has_all_cores(void) {
    uint32_t cores = 0;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    while (cores < CPU_SETSIZE && CPU_ISSET(cores, &allowed)) cores++;
    return cores == (uint32_t)CPU_COUNT(&allowed) && cores == rt_topology_cores();
}

/* Where the kernel places PoCL's threads, two share a core now and then, and launches of some 50 us end before it sees
 * that. What the user says of them counts. */
void rt_pocl_threads_place(void) {
    if (getenv("POCL_MAX_PTHREAD_COUNT") != NULL || getenv("POCL_CPU_MAX_CU_COUNT") != NULL || !has_all_cores()) return;
    setenv("POCL_AFFINITY", "1", 0);
    atomic_store(&looking_on, getenv("POCL_AFFINITY")[0] == '1');
}

#ifdef __GLIBC__ /* no library of a phone or of a static program would take it */

/* How long a thread looks on, in looks of that many pauses; what passes from one look to the next where there was no
 * work, at most; how long it sleeps, at most. */
enum { PATIENCE_NS = 50000, PAUSES = 16, NO_WORK_NS = 2000, SLEEP_S = 3600 };

/* The first thread is the program's own, which must not keep a core from the driver's while it waits for them. */
static bool is_first_thread(void) {
    static _Thread_local int first = -1;
    if (first < 0) first = rt_thread_id() == getpid();
    return first;
}

static void look_aside(pthread_mutex_t *mutex) {
    pthread_mutex_unlock(mutex);
    for (int i = 0; i < PAUSES; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    pthread_mutex_lock(mutex);
}

__attribute__((visibility("default"))) int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    static _Thread_local uint64_t since_ns, looked_ns;
    if (atomic_load_explicit(&looking_on, memory_order_relaxed) && !is_first_thread()) {
        uint64_t now_ns = rt_clock_ns();
        if (now_ns - looked_ns > NO_WORK_NS) since_ns = now_ns;
        if (now_ns - since_ns < PATIENCE_NS) {
            look_aside(mutex);
            looked_ns = rt_clock_ns();
            return 0;
        }
        looked_ns = 0;
    }
    struct timespec late;
    clock_gettime(CLOCK_REALTIME, &late); /* later than any time of the monotonic clock, by which it may count */
    late.tv_sec += SLEEP_S;
    int code = pthread_cond_timedwait(condition, mutex, &late);
    return code == ETIMEDOUT ? 0 : code;
}

#endif
