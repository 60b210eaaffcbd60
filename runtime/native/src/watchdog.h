/* A thread that reports launches which do not end. */
#ifndef RT_WATCHDOG_H
#define RT_WATCHDOG_H

#include "base.h"

typedef struct rt_watchdog rt_watchdog;
typedef void rt_hang_report(void *user, const rt_error *error);

/* NULL where no thread can be started. */
rt_watchdog *rt_watchdog_start(uint32_t limit_ms, rt_hang_report *report, void *user);
void rt_watchdog_stop(rt_watchdog *watchdog);

/* After arm, `limit_ms` may pass until the next arm or disarm, else `report` is called, once, from the thread. A NULL
 * watchdog ignores both. `step` is RT_NO_STEP when several steps are waited for. */
void rt_watchdog_arm(rt_watchdog *watchdog, int32_t step);
void rt_watchdog_disarm(rt_watchdog *watchdog);

#endif
