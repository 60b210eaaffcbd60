/* Whoever runs finishes the loop; nobody waits for a thread that has no turn in hand, so one that gets no core, as beside
 * other work, costs what it would have done and no more.
 *
 * - Each worker has a range of the turns, the same part in every loop, so that it finds in its caches what it wrote in
 *   the loop before; then it helps the others. `left` counts down the turns of a range that nobody has taken.
 * - A turn is taken by lowering `left`, and only who has taken one reads the loop. It stays until that turn is
 *   finished, because the owner returns when all turns are: `unfinished` counts them down. A late thread thus finds no
 *   turn, or takes one of the loop that is under way, whichever that is; it cannot mix up two loops.
 * - `announced` and `unfinished` are futexes (a lock would make the owner wait for a thread that lost its core with the
 *   lock in hand), and their lowest bit says that somebody sleeps. Who sets it goes to sleep only if the rest is as it
 *   was, and who changes the rest sees it.
 *
 * Loops follow each other within microseconds, and a thread that sleeps takes 50 us and more to come back: so a thread
 * that waits looks on for a while before it sleeps. On a busy machine that costs the time in which it would have worked,
 * or keeps a core from the thread that it waits for; so the while is a part of the time for which the thread has kept
 * its core. */
#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "../system/allocation.h"
#include "../system/clock.h"
#include "../system/errors.h"
#include "../system/futex.h"
#include "../system/thread_times.h"

enum { CACHE_LINE_BYTES = 64 };

/* A thread looks on for this part of the time for which it kept its core, at most so long, and reads the clock now and
 * then. 100 us are longer than nearly all waits on a machine with nothing else to do: sleeping through them is what
 * costs there. A thread beside others loses its core every few milliseconds, and looks on for some microseconds. */
enum { KEPT_PER_LOOK = 200, LONGEST_LOOK_NS = 100000, LOOKS_PER_CLOCK = 32 };

/* The lowest bit of a futex here, and what it counts, above that bit. */
enum { SLEEPER = 1, ONE = 2, MOST_TURNS = INT32_MAX };

/* One worker; the first has no thread of its own. */
typedef struct {
    rt_workers *pool;
    pthread_t thread;
    uint32_t index;
    int32_t id; /* the kernel's number of the thread */
    void *scratch;
    uint64_t preemptions, kept_since_ns; /* how often it lost its core, and when it last found that it had */
    /* Of its range, the turns that nobody has taken; the range's end, which belongs to the loop. */
    _Alignas(CACHE_LINE_BYTES) atomic_uint left;
    uint32_t end;
} worker;

struct rt_workers {
    worker *workers;
    uint32_t count;   /* workers; the caller is the first */
    uint32_t started; /* threads */
    rt_cores cores;
    cpu_set_t callers_cores; /* between enter and leave */
    uint64_t scratch_bytes;
    atomic_uint ready; /* threads that are on their cores */
    atomic_bool stopping;
    /* the loop: read by who has a turn of it in hand */
    rt_turn *turn;
    const void *context;
    _Alignas(CACHE_LINE_BYTES) atomic_uint announced; /* loops; threads sleep on it */
    _Alignas(CACHE_LINE_BYTES) atomic_uint unfinished; /* turns; the owner sleeps on it */
};

/* A wait so far. */
typedef struct {
    uint32_t looks;
    uint64_t end_ns; /* when it is to sleep */
} watch;

/* --- waiting --- */

/* Tells the core that it waits, so that its other thread gets on. */
static inline void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* How long a thread looks on. */
static uint64_t patience_ns(worker *own, uint64_t now_ns) {
    uint64_t preemptions = rt_thread_preemptions();
    if (preemptions != own->preemptions) {
        own->preemptions = preemptions;
        own->kept_since_ns = now_ns;
    }
    uint64_t part_ns = (now_ns - own->kept_since_ns) / KEPT_PER_LOOK;
    return part_ns < LONGEST_LOOK_NS ? part_ns : LONGEST_LOOK_NS;
}

/* Whether a thread that waits looks again before it sleeps; the watch is all 0 at first. */
static inline bool looks_on(worker *own, watch *watch) {
    spin_pause();
    if (++watch->looks % LOOKS_PER_CLOCK != 0) return true;
    uint64_t now_ns = rt_clock_ns();
    if (watch->end_ns == 0) watch->end_ns = now_ns + patience_ns(own, now_ns);
    return now_ns < watch->end_ns;
}

/* --- turns --- */

/* Divides the turns into ranges that follow each other. The release makes the loop's members visible to who takes one,
 * which may be before the last range is dealt. */
static void turns_deal(rt_workers *pool, uint64_t turns) {
    for (uint64_t i = 0; i < pool->count; i++) pool->workers[i].end = (uint32_t)(turns * (i + 1) / pool->count);
    for (uint64_t i = 0; i < pool->count; i++) {
        uint32_t size = (uint32_t)(turns * (i + 1) / pool->count - turns * i / pool->count);
        atomic_store_explicit(&pool->workers[i].left, size, memory_order_release);
    }
}

/* Takes the next turn of a worker's range; false where none is left. */
static bool turn_take(worker *from, uint32_t *turn) {
    uint32_t left = atomic_load_explicit(&from->left, memory_order_relaxed);
    do {
        if (left == 0) return false;
    } while (!atomic_compare_exchange_weak_explicit(&from->left, &left, left - 1, memory_order_acquire,
                                                    memory_order_relaxed));
    *turn = from->end - left;
    return true;
}

/* Runs turns until none is left: first the worker's own, then those of the workers after it. Returns how many; until
 * they are told as finished, all are of one loop. */
static uint32_t turns_run(rt_workers *pool, uint32_t index) {
    uint32_t finished = 0, turn;
    for (uint32_t i = 0; i < pool->count; i++) {
        worker *from = &pool->workers[(index + i) % pool->count];
        for (; turn_take(from, &turn); finished++) pool->turn(pool->context, turn, index);
    }
    return finished;
}

/* Tells that turns are finished, and wakes the owner if they were the last and it sleeps. */
static void turns_finish(rt_workers *pool, uint32_t turns) {
    if (turns == 0) return;
    uint32_t before = atomic_fetch_sub_explicit(&pool->unfinished, turns * ONE, memory_order_acq_rel);
    if (before - turns * ONE == SLEEPER) rt_futex_wake(&pool->unfinished);
}

/* --- threads --- */

/* Which loop an announcement is of. */
static uint32_t loop_of(uint32_t announced) { return announced & ~(uint32_t)SLEEPER; }

/* Waits until a loop after `seen` is announced; returns which. */
static uint32_t announcement_wait(worker *own, uint32_t seen) {
    atomic_uint *announced = &own->pool->announced;
    watch watch = {0, 0};
    do {
        uint32_t now = loop_of(atomic_load_explicit(announced, memory_order_acquire));
        if (now != seen) return now;
    } while (looks_on(own, &watch));
    for (;;) {
        uint32_t now = loop_of(atomic_fetch_or_explicit(announced, SLEEPER, memory_order_acq_rel));
        if (now != seen) return now;
        rt_futex_wait(announced, seen | SLEEPER);
    }
}

/* Puts the calling thread on the chosen cores. A refusal is no error: rt_workers_cores_text tells what came of it. */
static void cores_take(const rt_workers *pool) {
    if (pool->cores.is_pinned) sched_setaffinity(0, sizeof pool->cores.set, &pool->cores.set);
}

/* A thread: waits for a loop and runs turns, of that loop or of a later one. */
static void *worker_run(void *argument) {
    worker *own = argument;
    rt_workers *pool = own->pool;
    uint32_t seen = 0;
    cores_take(pool);
    own->id = rt_thread_id();
    atomic_fetch_add_explicit(&pool->ready, 1, memory_order_release);
    for (;;) {
        seen = announcement_wait(own, seen);
        if (atomic_load(&pool->stopping)) return NULL;
        turns_finish(pool, turns_run(pool, own->index));
    }
}

/* Lets all threads go, and wakes those that sleep. */
static void loop_announce(rt_workers *pool) {
    uint32_t next = loop_of(atomic_load_explicit(&pool->announced, memory_order_relaxed)) + ONE;
    if (atomic_exchange_explicit(&pool->announced, next, memory_order_acq_rel) & SLEEPER) {
        rt_futex_wake(&pool->announced);
    }
}

/* Waits until every turn is finished; the acquire makes visible what they wrote. */
static void loop_wait(rt_workers *pool) {
    watch watch = {0, 0};
    do {
        if (atomic_load_explicit(&pool->unfinished, memory_order_acquire) == 0) return;
    } while (looks_on(&pool->workers[0], &watch));
    for (;;) {
        uint32_t now = atomic_fetch_or_explicit(&pool->unfinished, SLEEPER, memory_order_acq_rel);
        if (now < ONE) return;
        rt_futex_wait(&pool->unfinished, now | SLEEPER);
    }
}

void rt_workers_run(rt_workers *pool, uint32_t count, rt_turn *turn, const void *context) {
    if (count <= 1 || count > MOST_TURNS || pool->started == 0) { /* waking others would cost more than the turn */
        for (uint32_t i = 0; i < count; i++) turn(context, i, 0);
        return;
    }
    pool->turn = turn;
    pool->context = context;
    atomic_store_explicit(&pool->unfinished, count * ONE, memory_order_relaxed);
    turns_deal(pool, count);
    loop_announce(pool);
    turns_finish(pool, turns_run(pool, 0));
    loop_wait(pool);
}

void rt_workers_enter(rt_workers *pool) {
    if (!pool->cores.is_pinned) return;
    if (sched_getaffinity(0, sizeof pool->callers_cores, &pool->callers_cores) == 0) cores_take(pool);
}

void rt_workers_leave(rt_workers *pool) {
    if (pool->cores.is_pinned) sched_setaffinity(0, sizeof pool->callers_cores, &pool->callers_cores);
}

void rt_workers_cores_text(rt_workers *pool, uint32_t index, char *text, size_t size) {
    rt_workers_enter(pool);
    rt_thread_cores_text(index == 0 ? rt_thread_id() : pool->workers[index].id, text, size);
    rt_workers_leave(pool);
}

/* Waits until every thread is on its cores and has said which thread it is. */
static void threads_wait(const rt_workers *pool) {
    while (atomic_load_explicit(&pool->ready, memory_order_acquire) < pool->started) sched_yield();
}

/* Starts the threads of all workers but the first; `started` says how many, should one fail. */
static bool threads_start(rt_workers *pool) {
    for (uint32_t i = 1; i < pool->count; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        if (pthread_create(&pool->workers[i].thread, NULL, worker_run, &pool->workers[i]) != 0) return false;
        pool->started++;
    }
    threads_wait(pool);
    return true;
}

rt_status rt_workers_start(rt_workers **workers, uint32_t threads, const rt_cores *cores, rt_error *error) {
    rt_workers *pool = *workers = rt_memory_allocate_aligned(1, sizeof *pool);
    if (pool == NULL) return rt_error_no_memory(error, "threads");
    pool->cores = *cores;
    pool->count = threads ? threads : rt_cores_count(cores);
    pool->workers = rt_memory_allocate_aligned(pool->count, sizeof *pool->workers);
    if (pool->workers != NULL && threads_start(pool)) return RT_OK;
    rt_workers_stop(pool);
    *workers = NULL;
    return rt_error_no_memory(error, "threads");
}

void rt_workers_stop(rt_workers *pool) {
    if (pool == NULL) return;
    atomic_store(&pool->stopping, true);
    loop_announce(pool);
    for (uint32_t i = 0; i < pool->started; i++) pthread_join(pool->workers[1 + i].thread, NULL);
    for (uint32_t i = 0; pool->workers != NULL && i < pool->count; i++)
        rt_memory_free_aligned(pool->workers[i].scratch);
    rt_memory_free_aligned(pool->workers);
    rt_memory_free_aligned(pool);
}

uint32_t rt_workers_count(const rt_workers *pool) { return pool->count; }

const rt_cores *rt_workers_cores(const rt_workers *pool) { return &pool->cores; }

rt_status rt_workers_reserve(rt_workers *pool, uint64_t bytes, rt_error *error) {
    if (bytes <= pool->scratch_bytes) return RT_OK;
    for (uint32_t i = 0; i < pool->count; i++) {
        void *larger = bytes <= SIZE_MAX ? rt_memory_allocate_aligned((size_t)bytes, 1) : NULL;
        if (larger == NULL) return rt_error_no_memory(error, "intermediate results");
        rt_memory_free_aligned(pool->workers[i].scratch);
        pool->workers[i].scratch = larger;
    }
    pool->scratch_bytes = bytes;
    return RT_OK;
}

void *rt_workers_scratch(const rt_workers *pool, uint32_t index) { return pool->workers[index].scratch; }
