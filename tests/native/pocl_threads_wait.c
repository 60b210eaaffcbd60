/* Waits on a condition in a second thread, then in the first, each time until the other signals it after a while. Prints
 * how often each wait returned, and the milliseconds that the second thread ran. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "serve/pocl_threads.h"
#include "system/clock.h"

enum { WHILE_MS = 100 };

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_over;
    int returns;
} waiting;

static waiting of_second = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0};
static waiting of_first = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0};

static void wait_for(waiting *own) {
    pthread_mutex_lock(&own->mutex);
    for (; !own->is_over; own->returns++) pthread_cond_wait(&own->changed, &own->mutex);
    pthread_mutex_unlock(&own->mutex);
}

static void end(waiting *other) {
    rt_clock_sleep_ms(WHILE_MS);
    pthread_mutex_lock(&other->mutex);
    other->is_over = true;
    pthread_cond_signal(&other->changed);
    pthread_mutex_unlock(&other->mutex);
}

static void *second_run(void *ran) {
    wait_for(&of_second);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, ran);
    end(&of_first);
    return NULL;
}

int main(void) {
    pthread_t second;
    struct timespec ran;
    rt_pocl_threads_place();
    if (pthread_create(&second, NULL, second_run, &ran) != 0) return 1;
    end(&of_second);
    wait_for(&of_first);
    pthread_join(second, NULL);
    printf("%d %d %ld\n", of_second.returns, of_first.returns, (long)ran.tv_sec * 1000 + ran.tv_nsec / 1000000);
    return 0;
}
