/* The scheduler counts for each thread the nanoseconds that it ran and those that it was ready to run and had no core
 * (Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat). A kernel that is built without these counts has no
 * such files, or zeros in them.
 */
#include "thread_times.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "file.h"

/* Adds what the kernel tells of one thread; one that has ended meanwhile has no file any more. */
static void thread_add(const char *thread, rt_thread_times *times) {
    char path[sizeof "/proc/self/task//schedstat" + 32], text[96], *rest = NULL;
    snprintf(path, sizeof path, "/proc/self/task/%.32s/schedstat", thread);
    if (!rt_file_read_text(path, text, sizeof text)) return;
    times->running_ns += strtoull(text, &rest, 10);
    times->waiting_ns += strtoull(rest, NULL, 10);
}

bool rt_thread_times_read(rt_thread_times *times) {
    *times = (rt_thread_times){0, 0};
    DIR *threads = opendir("/proc/self/task");
    if (threads == NULL) return false;
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        if (entry->d_name[0] != '.') thread_add(entry->d_name, times);
    }
    closedir(threads);
    return times->running_ns > 0; /* this process has run */
}

static uint64_t growth(uint64_t before, uint64_t after) { return after > before ? after - before : 0; }

rt_thread_times rt_thread_times_between(const rt_thread_times *before, const rt_thread_times *after) {
    return (rt_thread_times){growth(before->running_ns, after->running_ns),
                             growth(before->waiting_ns, after->waiting_ns)};
}

uint64_t rt_thread_preemptions(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nivcsw;
}

uint64_t rt_thread_waited_ns(void) {
    char text[96], *rest = NULL;
    if (!rt_file_read_text("/proc/thread-self/schedstat", text, sizeof text)) return 0;
    strtoull(text, &rest, 10); /* how long it ran */
    return strtoull(rest, NULL, 10);
}
