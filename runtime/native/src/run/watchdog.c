/* The thread polls while armed and sleeps on a condition else: timed waits differ between C libraries, and a tick of a
 * few milliseconds is exact enough for limits of seconds. */
#include "watchdog.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "../system/allocation.h"
#include "../system/clock.h"
#include "../system/errors.h"

enum { TICK_MS = 20, NS_PER_MS = 1000000, TIMES_AS_LONG = 5 };

struct rt_watchdog {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    rt_hang_report *report;
    void *user;
    /* guarded by mutex */
    uint32_t limit_ms;
    bool armed, stopping;
    uint64_t deadline_ns;
    int32_t step;
};

/* Tells the owner, who will end the process; the mutex is not held. */
static void hang_report(rt_watchdog *watchdog, int32_t step, uint32_t limit_ms) {
    rt_error error;
    rt_error_set(&error, RT_HANG, "no progress for %u ms", limit_ms);
    error.step = step;
    watchdog->report(watchdog->user, &error);
}

/* The thread. It holds the mutex but for its naps and the report, which may take long. */
static void *watchdog_run(void *argument) {
    rt_watchdog *watchdog = argument;
    pthread_mutex_lock(&watchdog->mutex);
    while (!watchdog->stopping) {
        if (!watchdog->armed) {
            pthread_cond_wait(&watchdog->changed, &watchdog->mutex);
            continue;
        }
        bool late = rt_clock_ns() > watchdog->deadline_ns;
        int32_t step = watchdog->step;
        uint32_t limit_ms = watchdog->limit_ms;
        watchdog->armed = !late;
        pthread_mutex_unlock(&watchdog->mutex);
        if (late) {
            hang_report(watchdog, step, limit_ms);
        } else {
            rt_clock_sleep_ms(TICK_MS);
        }
        pthread_mutex_lock(&watchdog->mutex);
    }
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

rt_watchdog *rt_watchdog_start(uint32_t limit_ms, rt_hang_report *report, void *user) {
    rt_watchdog *watchdog = rt_memory_allocate(1, sizeof *watchdog);
    if (watchdog == NULL) return NULL;
    watchdog->limit_ms = limit_ms;
    watchdog->report = report;
    watchdog->user = user;
    pthread_mutex_init(&watchdog->mutex, NULL);
    pthread_cond_init(&watchdog->changed, NULL);
    if (pthread_create(&watchdog->thread, NULL, watchdog_run, watchdog) == 0) return watchdog;
    rt_memory_free(watchdog);
    return NULL;
}

void rt_watchdog_stop(rt_watchdog *watchdog) {
    if (watchdog == NULL) return;
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->stopping = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->mutex);
    pthread_join(watchdog->thread, NULL);
    pthread_mutex_destroy(&watchdog->mutex);
    pthread_cond_destroy(&watchdog->changed);
    rt_memory_free(watchdog);
}

void rt_watchdog_arm(rt_watchdog *watchdog, int32_t step) {
    if (watchdog == NULL) return;
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->deadline_ns = rt_clock_ns() + (uint64_t)watchdog->limit_ms * NS_PER_MS;
    watchdog->step = step;
    if (!watchdog->armed) pthread_cond_signal(&watchdog->changed);
    watchdog->armed = true;
    pthread_mutex_unlock(&watchdog->mutex);
}

void rt_watchdog_disarm(rt_watchdog *watchdog) {
    if (watchdog == NULL) return;
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->armed = false;
    pthread_mutex_unlock(&watchdog->mutex);
}

void rt_watchdog_expect(rt_watchdog *watchdog, uint64_t duration_ns) {
    if (watchdog == NULL) return;
    uint64_t wanted_ms = duration_ns / NS_PER_MS * TIMES_AS_LONG;
    pthread_mutex_lock(&watchdog->mutex);
    if (wanted_ms > watchdog->limit_ms) watchdog->limit_ms = wanted_ms < UINT32_MAX ? (uint32_t)wanted_ms : UINT32_MAX;
    pthread_mutex_unlock(&watchdog->mutex);
}
