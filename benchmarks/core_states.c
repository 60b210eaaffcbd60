/* Two pieces of work for each core at the same time, which tell what takes a core's speed.
 *
 * A chain of multiplications, each waiting for the one before it, runs as fast as the clock and hardly slower when the
 * core's other hyperthread works. Instructions that do nothing fill the whole width of the core: they take twice as
 * long as soon as the other hyperthread does anything. Time that passes in neither was taken by the system.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CHAIN = 600, NOPS = 9000, MOST = 1 << 16 };

static double clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void chain_run(void) {
    uint64_t x = 3;
    for (int i = 0; i < CHAIN; i++) {
#if defined(__x86_64__)
        __asm__ volatile("imul %0, %0" : "+r"(x));
#elif defined(__aarch64__)
        __asm__ volatile("mul %0, %0, %0" : "+r"(x));
#else
#error "unknown processor"
#endif
    }
}

static void nops_run(void) {
    for (int i = 0; i < NOPS; i += 10) {
        __asm__ volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop");
    }
}

static int compare(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* A core's window: how long it measures, with a pause after so much work (0: none), and the medians that it finds. */
typedef struct {
    int cpu;
    double window_ns, work_ns, pause_us;
    double chain_ns, nops_ns;
    pthread_barrier_t *start;
} core;

static void *core_run(void *argument) {
    core *own = argument;
    double *chain = malloc(MOST * sizeof *chain), *nops = malloc(MOST * sizeof *nops);
    cpu_set_t cpus;
    int count = 0;
    CPU_ZERO(&cpus);
    CPU_SET(own->cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    pthread_barrier_wait(own->start);
    double start = clock_ns(), now = start, woken = start;
    while (chain != NULL && nops != NULL && now - start < own->window_ns && count < MOST) {
        if (own->pause_us > 0 && now - woken > own->work_ns) {
            usleep((useconds_t)own->pause_us);
            woken = now = clock_ns();
        }
        chain_run();
        double between = clock_ns();
        nops_run();
        chain[count] = between - now;
        now = clock_ns();
        nops[count++] = now - between;
    }
    if (count > 0) {
        qsort(chain, (size_t)count, sizeof *chain, compare);
        qsort(nops, (size_t)count, sizeof *nops, compare);
        own->chain_ns = chain[count / 2];
        own->nops_ns = nops[count / 2];
    }
    free(chain);
    free(nops);
    return NULL;
}

/* Measures `count` cores at once; `medians` gets the chain's and the nops' of each. Returns 0, or 1 without a thread. */
int cores_measure(const int *cpus, int count, double window_ms, double work_us, double pause_us, double *medians) {
    pthread_barrier_t start;
    pthread_t threads[256];
    core cores[256];
    if (count < 1 || count > 256 || pthread_barrier_init(&start, NULL, (unsigned)count) != 0) return 1;
    for (int i = 0; i < count; i++) {
        cores[i] = (core){cpus[i], window_ms * 1e6, work_us * 1e3, pause_us, 0, 0, &start};
        if (pthread_create(&threads[i], NULL, core_run, &cores[i]) != 0) abort();
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        medians[2 * i] = cores[i].chain_ns;
        medians[2 * i + 1] = cores[i].nops_ns;
    }
    pthread_barrier_destroy(&start);
    return 0;
}
