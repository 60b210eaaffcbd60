/* The CPU's cores, from /proc and /sys. */
#ifndef RT_TOPOLOGY_H
#define RT_TOPOLOGY_H

#include "base.h"

enum { RT_MAX_CORES = 256 };

/* Number of cores that this system has, at least 1. */
uint32_t rt_topology_cores(void);
/* Highest frequency of a core, 0 where it is not told. */
uint32_t rt_topology_max_khz(uint32_t core);
/* Value of the first line of /proc/cpuinfo that starts with `key`; false where there is none. */
bool rt_topology_cpuinfo(const char *key, char *value, size_t size);
uint64_t rt_topology_memory_bytes(void);
uint64_t rt_topology_page_bytes(void);

#endif
