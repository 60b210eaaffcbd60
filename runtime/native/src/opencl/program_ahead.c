/* OpenCL lets one thread build while another launches (OpenCL 1.2, appendix A.2); the two share no object here. */
#include "program_ahead.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "../system/allocation.h"

/* Compilers recurse deeply, and some C libraries give a thread 128 KiB. */
enum { STACK_BYTES = 8 << 20 };

struct rt_program_ahead {
    pthread_t thread;
    atomic_bool is_done;
    rt_program_build build; /* the thread's until it is joined */
    char *options;
};

/* The thread. */
static void *builder_run(void *argument) {
    rt_program_ahead *ahead = argument;
    rt_program_build_run(&ahead->build);
    atomic_store(&ahead->is_done, true);
    return NULL;
}

/* Starts the thread; false where there is none to be had. */
static bool builder_start(rt_program_ahead *ahead) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    bool started = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
                   pthread_create(&ahead->thread, &attributes, builder_run, ahead) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

rt_program_ahead *rt_program_ahead_start(const rt_program_build *build) {
    rt_program_ahead *made = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return NULL;
    made->options = rt_memory_copy_string(build->options);
    made->build = *build;
    made->build.options = made->options;
    if (made->options != NULL && builder_start(made)) return made;
    rt_memory_free(made->options);
    rt_memory_free(made);
    return NULL;
}

bool rt_program_ahead_is_running(const rt_program_ahead *ahead) { return !atomic_load(&ahead->is_done); }

rt_program_build rt_program_ahead_end(rt_program_ahead *ahead) {
    pthread_join(ahead->thread, NULL);
    rt_program_build build = ahead->build;
    rt_memory_free(ahead);
    return build;
}
