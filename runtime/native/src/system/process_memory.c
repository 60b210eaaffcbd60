/* The kernel counts the highest resident set itself (VmHWM); writing 5 to clear_refs sets it to what is resident now
 * (Documentation/filesystems/proc.rst). Not every system allows that. */
#include "process_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "topology.h"

static bool restarted;

void rt_process_memory_restart(void) {
    int descriptor = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    restarted = descriptor >= 0 && write(descriptor, "5", 1) == 1;
    if (descriptor >= 0) close(descriptor);
}

rt_process_memory rt_process_memory_read(void) {
    char value[64];
    rt_process_memory read = {0, restarted};
    if (rt_topology_value("/proc/self/status", "VmHWM", value, sizeof value)) {
        read.peak_bytes = strtoull(value, NULL, 10) * 1024;
    }
    return read;
}
