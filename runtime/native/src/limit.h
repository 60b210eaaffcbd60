/* Splitting of long launches, so that a device that also draws the screen is not held for longer than a limit. */
#ifndef RT_LIMIT_H
#define RT_LIMIT_H

#include "profile.h"

/* Whether the next round must be measured to know which launches to split. */
bool rt_limit_is_pending(const rt_engine *engine);
/* Chooses the parts of each step from a measured round. */
void rt_limit_apply(rt_engine *engine, const rt_profile *profile);

#endif
