/* A loop is announced by raising `generation`. Each worker has a range of the turns, the same part in every loop, so that
 * it finds in its caches what it wrote in the loop before; then it helps the others. Threads spin before they sleep,
 * because loops follow each other within microseconds: long during a run, when the next loop is sure to come, and a
 * little elsewhere, when the cores may be somebody else's. A thread that sleeps takes 50 us and more to come back. */
#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "../system/allocation.h"
#include "../system/errors.h"

enum { SPINS = 2000, SPINS_IN_RUN = 50000, CACHE_LINE_BYTES = 64 };

/* One worker; the first has no thread of its own. */
typedef struct {
    rt_workers *pool;
    pthread_t thread;
    uint32_t index;
    int32_t id; /* the kernel's number of the thread */
    void *scratch;
    /* Its next turn and the end of its turns; whoever has nothing to do takes from them, too. */
    _Alignas(CACHE_LINE_BYTES) atomic_uint next;
    uint32_t end;
} worker;

struct rt_workers {
    worker *workers;
    uint32_t count;   /* workers; the caller is the first */
    uint32_t started; /* threads */
    rt_cores cores;
    cpu_set_t callers_cores; /* between enter and leave */
    uint64_t scratch_bytes;
    pthread_mutex_t mutex;
    pthread_cond_t announced, finished;
    atomic_uint ready; /* threads that are on their cores */
    atomic_uint generation;
    atomic_uint active; /* threads that have not finished the loop */
    atomic_bool stopping;
    atomic_bool in_run; /* between enter and leave */
    /* the loop: written before it is announced, and not until all have finished */
    rt_turn *turn;
    const void *context;
};

/* --- threads --- */

/* Tells the core that it waits, so that its other thread gets on. */
static inline void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Whether a thread that has looked so often should look again before it sleeps. */
static inline bool spins_on(const rt_workers *pool, int spins) {
    bool in_run = atomic_load_explicit(&pool->in_run, memory_order_relaxed);
    return spins < (in_run ? SPINS_IN_RUN : SPINS);
}

/* Divides the turns into ranges that follow each other. Relaxed: loop_announce publishes them with the generation. */
static void turns_deal(rt_workers *pool, uint64_t turns) {
    for (uint64_t i = 0; i < pool->count; i++) {
        atomic_store_explicit(&pool->workers[i].next, (uint32_t)(turns * i / pool->count), memory_order_relaxed);
        pool->workers[i].end = (uint32_t)(turns * (i + 1) / pool->count);
    }
}

/* Takes turns until none is left: first the worker's own, then those of the workers after it. */
static void turns_take(rt_workers *pool, uint32_t index) {
    for (uint32_t i = 0; i < pool->count; i++) {
        worker *from = &pool->workers[(index + i) % pool->count];
        for (;;) {
            uint32_t turn = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed);
            if (turn >= from->end) break;
            pool->turn(pool->context, turn, index);
        }
    }
}

/* Waits until a loop after `seen` is announced; returns its number. */
static uint32_t announcement_wait(rt_workers *pool, uint32_t seen) {
    for (int i = 0; spins_on(pool, i); i++) {
        uint32_t now = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (now != seen) return now;
        spin_pause();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->generation) == seen) pthread_cond_wait(&pool->announced, &pool->mutex);
    uint32_t now = atomic_load(&pool->generation);
    pthread_mutex_unlock(&pool->mutex);
    return now;
}

/* Puts the calling thread on the chosen cores. A refusal is no error: rt_workers_cores_text tells what came of it. */
static void cores_take(const rt_workers *pool) {
    if (pool->cores.is_pinned) sched_setaffinity(0, sizeof pool->cores.set, &pool->cores.set);
}

/* A thread: waits for a loop, takes its share, and says so if it is the last to finish. */
static void *worker_run(void *argument) {
    worker *own = argument;
    rt_workers *pool = own->pool;
    uint32_t seen = 0;
    cores_take(pool);
    own->id = rt_thread_id();
    atomic_fetch_add_explicit(&pool->ready, 1, memory_order_release);
    for (;;) {
        seen = announcement_wait(pool, seen);
        if (atomic_load(&pool->stopping)) return NULL;
        turns_take(pool, own->index);
        if (atomic_fetch_sub_explicit(&pool->active, 1, memory_order_acq_rel) != 1) continue;
        /* The last signals, under the mutex: the signal cannot fall between the owner's test and its wait. */
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_signal(&pool->finished);
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* Lets all threads go; the release makes the loop's members visible to them. */
static void loop_announce(rt_workers *pool) {
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add_explicit(&pool->generation, 1, memory_order_release);
    pthread_cond_broadcast(&pool->announced);
    pthread_mutex_unlock(&pool->mutex);
}

/* Waits until every thread has finished, spinning first. */
static void loop_wait(rt_workers *pool) {
    for (int i = 0; spins_on(pool, i); i++) {
        if (atomic_load_explicit(&pool->active, memory_order_acquire) == 0) return;
        spin_pause();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->active) > 0) pthread_cond_wait(&pool->finished, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

void rt_workers_run(rt_workers *pool, uint32_t count, rt_turn *turn, const void *context) {
    if (count <= 1 || pool->started == 0) { /* waking others would cost more than the turn */
        for (uint32_t i = 0; i < count; i++) turn(context, i, 0);
        return;
    }
    pool->turn = turn;
    pool->context = context;
    turns_deal(pool, count);
    atomic_store_explicit(&pool->active, pool->started, memory_order_relaxed);
    loop_announce(pool);
    turns_take(pool, 0);
    loop_wait(pool);
}

void rt_workers_enter(rt_workers *pool) {
    atomic_store_explicit(&pool->in_run, true, memory_order_relaxed);
    if (!pool->cores.is_pinned) return;
    if (sched_getaffinity(0, sizeof pool->callers_cores, &pool->callers_cores) == 0) cores_take(pool);
}

void rt_workers_leave(rt_workers *pool) {
    atomic_store_explicit(&pool->in_run, false, memory_order_relaxed);
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
    rt_workers *pool = *workers = rt_memory_allocate(1, sizeof *pool);
    if (pool == NULL) return rt_error_no_memory(error, "threads");
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->announced, NULL);
    pthread_cond_init(&pool->finished, NULL);
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
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->announced);
    pthread_cond_destroy(&pool->finished);
    rt_memory_free_aligned(pool->workers);
    rt_memory_free(pool);
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
