/* The memory that this process takes at its highest, from /proc.
 *
 * State: whether the kernel began anew with counting when it was last asked to; one thread at a time.
 */
#ifndef RT_PROCESS_MEMORY_H
#define RT_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* The highest resident set so far, 0 where the kernel does not tell. `since_restart`: since the last restart, else
 * since the process began. A value. */
typedef struct {
    uint64_t peak_bytes;
    bool since_restart;
} rt_process_memory;

/* Asks the kernel to begin anew with the highest resident set. */
void rt_process_memory_restart(void);

/* Reads it. */
rt_process_memory rt_process_memory_read(void);

#endif
