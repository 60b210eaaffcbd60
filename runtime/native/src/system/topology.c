/* Files are read whole into small buffers: what /proc says is text whose lines differ between kernels. */
#include "topology.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "allocation.h"
#include "file.h"

/* Up to the last core that this process may use: all that is known where a sandbox or SELinux refuses sysfs. */
static uint32_t usable_cores(void) {
    cpu_set_t usable;
    uint32_t count = 1;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0) return count;
    for (uint32_t i = 1; i < RT_MAX_CORES; i++) count = CPU_ISSET(i, &usable) ? i + 1 : count;
    return count;
}

uint32_t rt_topology_cores(void) {
    char text[256];
    uint32_t last = 0;
    if (!rt_file_read_text("/sys/devices/system/cpu/possible", text, sizeof text)) return usable_cores();
    char *dash = strrchr(text, '-');
    last = (uint32_t)strtoul(dash ? dash + 1 : text, NULL, 10);
    return last < RT_MAX_CORES ? last + 1 : RT_MAX_CORES;
}

uint32_t rt_topology_max_khz(uint32_t core) {
    char path[96], text[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", core);
    return rt_file_read_text(path, text, sizeof text) ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* Copies the value of a line `key<blanks>: value`; false where the line has another key. */
static bool line_value(char *line, const char *key, char *value, size_t size) {
    char *colon = strchr(line, ':');
    size_t length = strlen(key);
    if (colon == NULL || strncmp(line, key, length) != 0) return false;
    if (line + length != colon && line[length] != ' ' && line[length] != '\t') return false;
    snprintf(value, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
    return true;
}

/* The value of the first line with a key; takes the text apart. */
static bool text_value(char *text, const char *key, char *value, size_t size) {
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (line_value(line, key, value, size)) return true;
    }
    return false;
}

bool rt_topology_value(const char *path, const char *key, char *value, size_t size) {
    enum { FILE_BYTES = 1 << 16 };
    char *text = rt_memory_allocate(FILE_BYTES, 1);
    bool found = text != NULL && rt_file_read_text(path, text, FILE_BYTES) && text_value(text, key, value, size);
    if (!found) value[0] = '\0';
    rt_memory_free(text);
    return found;
}

bool rt_topology_cpuinfo(const char *key, char *value, size_t size) {
    return rt_topology_value("/proc/cpuinfo", key, value, size);
}

uint64_t rt_topology_memory_bytes(void) {
    char value[64];
    return rt_topology_value("/proc/meminfo", "MemTotal", value, sizeof value) ? strtoull(value, NULL, 10) * 1024 : 0;
}

uint64_t rt_topology_page_bytes(void) { return getauxval(AT_PAGESZ); }
