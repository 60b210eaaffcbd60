/* A policy is a wish and takes what there is; a list is an order, and is refused where it cannot be obeyed: the kernel
 * itself would silently drop the cores that a process may not use. */
#include "affinity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "errors.h"
#include "file.h"
#include "topology.h"

static const char online_file[] = "/sys/devices/system/cpu/online";

/* Adds `first-last` or a single number, and moves `text` behind it; false where it is neither. */
static bool range_read(const char **text, cpu_set_t *set) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    unsigned long first = strtoul(*text, &end, 10), last = first;
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9') return false;
        last = strtoul(end + 1, &end, 10);
    }
    *text = end;
    if (first > last || last >= CPU_SETSIZE) return false;
    for (unsigned long i = first; i <= last; i++) CPU_SET(i, set);
    return true;
}

/* Reads a list as /proc, /sys and users write it; false where it is none. */
static bool list_read(const char *text, cpu_set_t *set) {
    CPU_ZERO(set);
    while (range_read(&text, set)) {
        if (*text == '\0' || *text == '\n') return true;
        if (*text++ != ',') return false;
    }
    return false;
}

/* Adds one range to a text that has `used` characters; returns how many it has then. */
static size_t range_write(char *text, size_t used, size_t size, uint32_t first, uint32_t last) {
    int length = snprintf(text + used, size - used, first == last ? "%s%u" : "%s%u-%u", used ? "," : "", first, last);
    return length < 0 || used + (size_t)length >= size ? size - 1 : used + (size_t)length;
}

void rt_cores_text(const cpu_set_t *set, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        uint32_t first = i;
        if (!CPU_ISSET(i, set)) continue;
        while (i + 1 < CPU_SETSIZE && CPU_ISSET(i + 1, set)) i++;
        used = range_write(text, used, size, first, i);
    }
}

/* The cores that this process may use; all that there are where the system does not tell. */
static void allowed_read(cpu_set_t *allowed) {
    if (sched_getaffinity(0, sizeof *allowed, allowed) == 0) return;
    CPU_ZERO(allowed);
    for (uint32_t i = 0; i < rt_topology_cores(); i++) CPU_SET(i, allowed);
}

/* --- a policy --- */

/* The mean of what the allowed cores tell of their highest frequencies; 0 where none tells one. */
static uint64_t mean_khz(const cpu_set_t *allowed, const uint32_t *khz, uint32_t count) {
    uint64_t sum = 0, told = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!CPU_ISSET(i, allowed)) continue;
        sum += khz[i];
        told += khz[i] > 0;
    }
    return told > 0 ? sum / told : 0;
}

/* The allowed cores of a policy: big ones have a highest frequency no lower than the mean, so that a phone with one
 * prime core has several; little ones are the others. All where they do not differ, or tell no frequency. */
static void policy_choose(rt_cores *cores, rt_affinity affinity) {
    cpu_set_t allowed;
    uint32_t khz[RT_MAX_CORES], count = rt_topology_cores();
    allowed_read(&allowed);
    for (uint32_t i = 0; i < count; i++) khz[i] = rt_topology_max_khz(i);
    uint64_t mean = mean_khz(&allowed, khz, count);
    for (uint32_t i = 0; i < count; i++) {
        bool chosen = affinity == RT_AFFINITY_NONE || (khz[i] >= mean) == (affinity == RT_AFFINITY_BIG);
        if (CPU_ISSET(i, &allowed) && chosen) CPU_SET(i, &cores->set);
    }
    if (CPU_COUNT(&cores->set) == 0) cores->set = allowed;
    cores->is_pinned = affinity != RT_AFFINITY_NONE;
}

/* --- a list --- */

/* RT_UNSUPPORTED where a core that is asked for is not among those that there are, in this sense. */
static rt_status all_among(const cpu_set_t *asked, const cpu_set_t *there, const char *missing, rt_error *error) {
    char text[RT_CORES_TEXT_BYTES];
    rt_cores_text(there, text, sizeof text);
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, asked) || CPU_ISSET(i, there)) continue;
        return rt_error_set(error, RT_UNSUPPORTED, "affinity: CPU %u %s %s", i, missing, text);
    }
    return RT_OK;
}

static rt_status list_choose(rt_cores *cores, const char *list, rt_error *error) {
    cpu_set_t there;
    char online[RT_CORES_TEXT_BYTES];
    if (!list_read(list, &cores->set)) {
        return rt_error_set(error, RT_BAD_COMMAND, "affinity: '%.60s' is no list of CPUs, as 4-7 or 0,2 are", list);
    }
    cores->is_pinned = true;
    CPU_ZERO(&there);
    for (uint32_t i = 0; i < rt_topology_cores(); i++) CPU_SET(i, &there);
    rt_status status = all_among(&cores->set, &there, "does not exist; there are", error);
    bool told = rt_file_read_text(online_file, online, sizeof online) && list_read(online, &there);
    if (status == RT_OK && told) status = all_among(&cores->set, &there, "is offline; online are", error);
    allowed_read(&there);
    if (status == RT_OK) {
        status = all_among(&cores->set, &there, "is not allowed to this process; its cpuset and mask allow", error);
    }
    return status;
}

rt_status rt_cores_choose(rt_cores *cores, rt_affinity affinity, const char *list, uint32_t threads, rt_error *error) {
    char text[RT_CORES_TEXT_BYTES];
    *cores = (rt_cores){0};
    if (list == NULL) {
        policy_choose(cores, affinity);
        return RT_OK;
    }
    rt_status status = list_choose(cores, list, error);
    if (status != RT_OK || threads <= rt_cores_count(cores)) return status;
    rt_cores_text(&cores->set, text, sizeof text);
    return rt_error_set(error, RT_UNSUPPORTED, "affinity: %u threads do not fit on CPUs %s; ask for at most %u", threads,
                        text, rt_cores_count(cores));
}

uint32_t rt_cores_threads(const rt_cores *cores, uint32_t asked) {
    uint32_t count = rt_cores_count(cores);
    return asked == 0 || (cores->is_pinned && asked > count) ? count : asked;
}

uint32_t rt_cores_count(const rt_cores *cores) {
    int count = CPU_COUNT(&cores->set);
    return count > 0 ? (uint32_t)count : 1;
}

/* --- threads --- */

int32_t rt_thread_id(void) { return (int32_t)syscall(SYS_gettid); }

void rt_thread_cores_text(int32_t thread, char *text, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    rt_topology_value(path, "Cpus_allowed_list", text, size);
}
