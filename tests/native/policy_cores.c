/* Prints the cores that a policy chooses: argv[1] is 1 for big, 2 for little, the rest the cores' highest frequencies
 * in kHz, 0 where a core tells none. Its own topology stands in for the system's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/affinity.h"
#include "system/topology.h"

static char **frequencies;
static uint32_t count;

uint32_t rt_topology_cores(void) { return count; }

uint32_t rt_topology_max_khz(uint32_t core) { return core < count ? (uint32_t)strtoul(frequencies[core], NULL, 10) : 0; }

bool rt_topology_value(const char *path, const char *key, char *value, size_t size) {
    (void)path, (void)key, (void)size;
    value[0] = '\0';
    return false;
}

/* The system does not say which cores are allowed: all are. */
int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set) {
    (void)process;
    memset(set, 0, size);
    return -1;
}

int main(int argc, char **argv) {
    rt_cores cores;
    rt_error error;
    char text[RT_CORES_TEXT_BYTES];
    if (argc < 3) return 2;
    frequencies = argv + 2;
    count = (uint32_t)argc - 2;
    if (rt_cores_choose(&cores, (rt_affinity)atoi(argv[1]), NULL, 0, &error) != RT_OK) return 1;
    rt_cores_text(&cores.set, text, sizeof text);
    printf("%s %u", text, rt_cores_threads(&cores, 4));
    return 0;
}
