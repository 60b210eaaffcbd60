/* The host's clock. Without state; from any thread. */
#ifndef RT_CLOCK_H
#define RT_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock: only differences mean anything. */
uint64_t rt_clock_ns(void);

/* Lets the calling thread sleep; a signal may end the sleep early. */
void rt_clock_sleep_ms(uint32_t ms);

#endif
