/* Runs loops on a pool of threads and checks each: every turn once, with the data of its loop, before the loop returns,
 * and no scratch memory in two hands.
 *
 *     workers_stress THREADS LOOPS          nothing else
 *     workers_stress THREADS LOOPS stalled  a thread at a time, at random, stops for 50 ms wherever it is; again
 *                                           until that happened 20 times
 *     workers_stress THREADS LOOPS held     all threads but the owner stop for as long as the loops take
 *     workers_stress THREADS LOOPS meeting  turns wait for each other; compiled with LOST_US, each thread loses its core
 *                                           for so long after each loop, as it is told
 *
 * Prints how often a thread stopped; of meetings, how many turns others than the owner ran. Exit status: 0 all is right, 1 not, 2 the pool cannot be started.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/workers.h"
#include "system/clock.h"

enum { MOST_TURNS = 40, SCRATCH_WORDS = 64, STALL_MS = 50, STALLS = 20, LONGEST_HOLD_MS = 20000 };
enum { MOST_THREADS = 16, MEETING_MS = 5 };

/* What a loop is given; what its turns write. */
typedef struct {
    rt_workers *pool;
    uint32_t loop;
    uint32_t *written;
} loop_data;

static atomic_uint stopped, stops, released, finished;

static void fail(const char *what, uint32_t loop, uint32_t turn) {
    fprintf(stderr, "loop %u, turn %u: %s\n", loop, turn, what);
    exit(1);
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const loop_data *own = context;
    uint32_t *scratch = rt_workers_scratch(own->pool, worker), loop = own->loop;
    for (uint32_t i = 0; i < SCRATCH_WORDS; i++) scratch[i] = loop + turn;
    for (uint32_t i = 0; i < SCRATCH_WORDS; i++) {
        if (scratch[i] != loop + turn) fail("its scratch memory is another's too", loop, turn);
    }
    if (own->loop != loop) fail("its loop has ended", loop, turn);
    own->written[turn] += loop;
}

/* Loops of 2 to MOST_TURNS turns. What one was given is overwritten when it has returned. */
static void loops_run(rt_workers *pool, uint32_t loops) {
    for (uint32_t loop = 1; loop <= loops; loop++) {
        uint32_t turns = 2 + loop * 7 % (MOST_TURNS - 1), written[MOST_TURNS] = {0};
        loop_data data = {pool, loop, written};
        rt_workers_run(pool, turns, turn_run, &data);
        for (uint32_t turn = 0; turn < turns; turn++) {
            if (written[turn] != loop) fail(written[turn] ? "run twice" : "not run", loop, turn);
        }
        memset(&data, 0xff, sizeof data);
        memset(written, 0xff, sizeof written);
    }
}

/* --- threads that stop --- */

static void stall(int signal) {
    (void)signal;
    atomic_fetch_add(&stops, 1);
    rt_clock_sleep_ms(STALL_MS);
}

static void hold(int signal) {
    (void)signal;
    atomic_fetch_add(&stops, 1);
    atomic_fetch_add(&stopped, 1);
    for (int ms = 0; !atomic_load(&released) && ms < LONGEST_HOLD_MS; ms++) rt_clock_sleep_ms(1);
    atomic_fetch_sub(&stopped, 1);
}

static void on_signal(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
}

/* The threads of this process but the calling one. */
static uint32_t others_list(pid_t *threads) {
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        pid_t thread = (pid_t)atoi(entry->d_name);
        if (thread > 0 && thread != (pid_t)syscall(SYS_gettid) && count < MOST_THREADS) threads[count++] = thread;
    }
    if (folder != NULL) closedir(folder);
    return count;
}

static void thread_stop(pid_t thread) { syscall(SYS_tgkill, getpid(), thread, SIGUSR1); }

static void *stall_at_random(void *unused) {
    (void)unused;
    pid_t threads[MOST_THREADS];
    uint32_t count = others_list(threads), random = 1;
    while (count > 0 && !atomic_load(&finished)) {
        random = random * 1664525u + 1013904223u;
        thread_stop(threads[(random >> 16) % count]);
        rt_clock_sleep_ms(STALL_MS / 2 + (random >> 24) % STALL_MS);
    }
    return NULL;
}

static void run_stalled(rt_workers *pool, uint32_t loops) {
    pthread_t thread;
    on_signal(stall);
    if (pthread_create(&thread, NULL, stall_at_random, NULL) != 0) exit(2);
    while (atomic_load(&stops) < STALLS) loops_run(pool, loops);
    atomic_store(&finished, 1);
    pthread_join(thread, NULL);
}

static void run_held(rt_workers *pool, uint32_t loops) {
    pid_t threads[MOST_THREADS];
    uint32_t count = others_list(threads);
    on_signal(hold);
    for (uint32_t i = 0; i < count; i++) thread_stop(threads[i]);
    while (atomic_load(&stopped) < count) rt_clock_sleep_ms(1);
    loops_run(pool, loops);
    if (atomic_load(&stopped) < count) fail("the loops waited for a thread that had no turn", loops, 0);
    atomic_store(&released, 1);
    while (atomic_load(&stopped) > 0) rt_clock_sleep_ms(1);
}

/* --- threads that lose their core --- */

#ifdef LOST_US /* in place of system/thread_times.c */
static _Thread_local uint64_t losses;
uint64_t rt_thread_preemptions(void) { return ++losses; }
uint64_t rt_thread_waited_ns(void) { return losses * LOST_US * 1000; }
#endif

/* The turns of a loop that have begun, and those of all loops that others than the owner ran. */
typedef struct {
    atomic_uint *begun, *by_others;
} meeting;

/* Waits for the other turn, which nobody else may be there to run. */
static void turn_meet(const void *context, uint32_t turn, uint32_t worker) {
    const meeting *own = context;
    (void)turn;
    if (worker > 0) atomic_fetch_add(own->by_others, 1);
    atomic_fetch_add(own->begun, 1);
    for (int ms = 0; atomic_load(own->begun) < 2 && ms < MEETING_MS; ms++) rt_clock_sleep_ms(1);
}

static uint32_t meetings_run(rt_workers *pool, uint32_t loops) {
    atomic_uint by_others = 0;
    for (uint32_t loop = 0; loop < loops; loop++) {
        atomic_uint begun = 0;
        rt_workers_run(pool, 2, turn_meet, &(meeting){&begun, &by_others});
    }
    return atomic_load(&by_others);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    uint32_t threads = (uint32_t)atoi(words[1]), loops = (uint32_t)atoi(words[2]);
    const char *manner = count > 3 ? words[3] : "";
    rt_cores cores = {.is_pinned = false};
    rt_workers *pool;
    if (rt_workers_start(&pool, threads, &cores, NULL) != RT_OK) return 2;
    if (rt_workers_reserve(pool, SCRATCH_WORDS * sizeof(uint32_t), NULL) != RT_OK) return 2;
    if (strcmp(manner, "stalled") == 0) {
        run_stalled(pool, loops);
    } else if (strcmp(manner, "held") == 0) {
        run_held(pool, loops);
    } else if (strcmp(manner, "meeting") == 0) {
        atomic_store(&stops, meetings_run(pool, loops));
    } else {
        loops_run(pool, loops);
    }
    rt_workers_stop(pool);
    printf("%u\n", atomic_load(&stops));
    return 0;
}
