/* The CPU's cores and the memory, from /proc and /sys. Without state: each call reads anew, and may come from any
 * thread. What the system does not tell is a 0 or an empty text. */
#ifndef RT_TOPOLOGY_H
#define RT_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RT_MAX_CORES = 256 };

/* Number of cores that this system has, sleeping ones too: at least 1, at most RT_MAX_CORES. */
uint32_t rt_topology_cores(void);

/* Highest frequency of a core, 0 where it is not told. */
uint32_t rt_topology_max_khz(uint32_t core);

/* Value of the first line `key: value` of a file in /proc; false, and an empty value, where there is none. */
bool rt_topology_value(const char *path, const char *key, char *value, size_t size);

/* Value of the first line of /proc/cpuinfo that starts with `key`; false, and an empty value, where there is none. */
bool rt_topology_cpuinfo(const char *key, char *value, size_t size);

/* Memory of the machine, and bytes of a page. */
uint64_t rt_topology_memory_bytes(void);
uint64_t rt_topology_page_bytes(void);

#endif
