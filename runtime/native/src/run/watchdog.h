/* A thread that reports launches which do not end.
 *
 * State: an rt_watchdog, guarded by its mutex; arm and disarm come from the thread that waits.
 */
#ifndef RT_WATCHDOG_H
#define RT_WATCHDOG_H

#include <stdint.h>

#include "../../include/farmrt.h"

typedef struct rt_watchdog rt_watchdog;

/* Called from the watchdog's thread, with RT_HANG and the step. */
typedef void rt_hang_report(void *user, const rt_error *error);

/* Starts the thread, not armed yet, for rt_watchdog_stop; NULL where no thread can be started. */
rt_watchdog *rt_watchdog_start(uint32_t limit_ms, rt_hang_report *report, void *user);

/* Ends the thread and waits for it; never from `report`. NULL is ignored. */
void rt_watchdog_stop(rt_watchdog *watchdog);

/* After arm, `limit_ms` may pass until the next arm or disarm, else `report` is called, once, from the thread. A NULL
 * watchdog ignores both. `step` is RT_NO_STEP when several steps are waited for. */
void rt_watchdog_arm(rt_watchdog *watchdog, int32_t step);
void rt_watchdog_disarm(rt_watchdog *watchdog);

/* Lets what has been seen to take `duration_ns` take several times that from now on, should the limit be less. */
void rt_watchdog_expect(rt_watchdog *watchdog, uint64_t duration_ns);

#endif
