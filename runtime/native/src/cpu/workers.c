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
 * that waits looks on for a while before it sleeps. On a busy machine that costs time in which it would have worked, or
 * keeps the core from the thread that it waits for; so each thread learns how long looking on pays, and stays away where
 * it holds up the others. */
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

/* How long a thread looks on. The longest is longer than the pieces that large layers are divided into: on a machine with
 * nothing else to do, sleeping through them is what costs. The clock is read once in so many looks. */
enum { SHORTEST_LOOK_NS = 1000, LONGEST_LOOK_NS = 1000000, LOOKS_PER_CLOCK = 32 };

/* How long a thread stays away. The kernel's turns are a few milliseconds. */
enum { SHORTEST_AWAY_MS = 16, LONGEST_AWAY_MS = 64, NS_PER_MS = 1000000 };

/* A wait for a core that is no reason to stay away: a watchdog or a thread of the kernel's ran for a moment. */
enum { SHORT_WAIT_NS = 500000 };

/* The lowest bit of a futex here, and what it counts, above that bit. */
enum { SLEEPER = 1, ONE = 2, MOST_TURNS = INT32_MAX };

/* One worker; the first has no thread of its own. */
typedef struct {
    rt_workers *pool;
    pthread_t thread;
    uint32_t index;
    int32_t id; /* the kernel's number of the thread */
    void *scratch;
    uint32_t patience_ns; /* how long it looks on */
    uint32_t away_ms;     /* how long it stayed away when it last lost its core, if it did */
    uint64_t preemptions; /* how often it lost its core */
    uint64_t waited_ns;   /* for a core */
    uint64_t asked_ns;    /* when it asked the kernel for these two */
    uint64_t since_ns;    /* when it found that at last, or came back */
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

/* --- waiting --- */

/* Tells the core that it waits, so that its other thread gets on. */
static inline void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* What a futex counts. */
static inline uint32_t count_of(uint32_t word) { return word & ~(uint32_t)SLEEPER; }

/* Whether a wait is over: for the count to be a value, or no longer to be it. */
typedef struct {
    atomic_uint *word;
    uint32_t value;
    bool is;
} condition;

static inline bool is_met(condition until, uint32_t word) { return (count_of(word) == until.value) == until.is; }

static void patience_set(worker *own, uint32_t ns) {
    own->patience_ns = ns < SHORTEST_LOOK_NS ? SHORTEST_LOOK_NS : ns > LONGEST_LOOK_NS ? LONGEST_LOOK_NS : ns;
}

/* Looks until the condition is met; false where it takes too long. A thread that looked in vain does so for half as long
 * next time, one that saw what it waited for after a while, for twice as long. */
static bool looks_until(worker *own, condition until) {
    uint64_t now_ns = 0, end_ns = 0;
    for (uint32_t looks = 1; now_ns <= end_ns; looks++) {
        if (is_met(until, atomic_load_explicit(until.word, memory_order_acquire))) {
            if (end_ns > 0) patience_set(own, own->patience_ns * 2);
            return true;
        }
        spin_pause();
        if (looks % LOOKS_PER_CLOCK != 0) continue;
        now_ns = rt_clock_ns();
        if (end_ns == 0) end_ns = now_ns + own->patience_ns;
    }
    patience_set(own, own->patience_ns / 2);
    return false;
}

/* Waits until the condition is met; the acquire makes visible what was written before. */
static void wait_until(worker *own, condition until) {
    if (looks_until(own, until)) return;
    for (;;) {
        uint32_t word = atomic_fetch_or_explicit(until.word, SLEEPER, memory_order_acq_rel);
        if (is_met(until, word)) return;
        rt_futex_wait(until.word, word | SLEEPER);
    }
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

/* Puts the calling thread on the chosen cores. A refusal is no error: rt_workers_cores_text tells what came of it. */
static void cores_take(const rt_workers *pool) {
    if (pool->cores.is_pinned) sched_setaffinity(0, sizeof pool->cores.set, &pool->cores.set);
}

/* Lets a thread that keeps losing its core for long stay away for a while, longer each time: it would hold up the loops of whose
 * turns it has one in hand then, and nobody waits for it while it has none. */
static void stay_away(worker *own) {
    uint64_t now_ns = rt_clock_ns();
    if (now_ns - own->asked_ns < SHORT_WAIT_NS) return; /* it cannot have waited longer, and a call costs what a loop does */
    own->asked_ns = now_ns;
    uint64_t preemptions = rt_thread_preemptions();
    if (preemptions == own->preemptions) return;
    own->preemptions = preemptions;
    uint64_t waited_ns = rt_thread_waited_ns(), wait_ns = waited_ns - own->waited_ns;
    own->waited_ns = waited_ns;
    if (waited_ns > 0 && wait_ns < SHORT_WAIT_NS) return;
    uint64_t kept_ms = (now_ns - own->since_ns) / NS_PER_MS;
    uint32_t longer_ms = own->away_ms < SHORTEST_AWAY_MS ? SHORTEST_AWAY_MS : own->away_ms * 2;
    own->away_ms = kept_ms >= SHORTEST_AWAY_MS && kept_ms >= own->away_ms ? 0 : longer_ms;
    if (own->away_ms > LONGEST_AWAY_MS) own->away_ms = LONGEST_AWAY_MS;
    if (own->away_ms > 0) rt_clock_sleep_ms(own->away_ms);
    own->since_ns = rt_clock_ns();
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
        wait_until(own, (condition){&pool->announced, seen, false});
        seen = count_of(atomic_load_explicit(&pool->announced, memory_order_acquire));
        if (atomic_load(&pool->stopping)) return NULL;
        turns_finish(pool, turns_run(pool, own->index));
        stay_away(own);
    }
}

/* Lets all threads go, and wakes those that sleep. */
static void loop_announce(rt_workers *pool) {
    uint32_t next = count_of(atomic_load_explicit(&pool->announced, memory_order_relaxed)) + ONE;
    if (atomic_exchange_explicit(&pool->announced, next, memory_order_acq_rel) & SLEEPER) {
        rt_futex_wake(&pool->announced);
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
    wait_until(&pool->workers[0], (condition){&pool->unfinished, 0, true});
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
    for (uint32_t i = 0; i < pool->count; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        pool->workers[i].patience_ns = LONGEST_LOOK_NS;
    }
    for (uint32_t i = 1; i < pool->count; i++) {
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
    pool->count = rt_cores_threads(cores, threads);
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
