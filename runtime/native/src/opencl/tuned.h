/* Tuned parameters: how each step with a tuning key is launched.
 *
 * State: an rt_tuned, with the file's content, the set that was chosen from it, and how many steps use it. Without a
 * file there is an rt_tuned too, one that has no entries.
 */
#ifndef RT_TUNED_H
#define RT_TUNED_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "device.h"
#include "../system/file.h"
#include "fingerprint.h"
#include "launch.h"
#include "../plan/plan.h"

typedef struct rt_tuned rt_tuned;

/* Checks the whole file and chooses a set, for rt_tuned_close; a source that is not given means no entries. `device` is
 * NULL where the plan does not use OpenCL. A file that fits nothing is no error. RT_BAD_FILE, RT_IO or RT_NO_MEMORY;
 * `*tuned` is NULL then. */
rt_status rt_tuned_open(rt_tuned **tuned, const rt_source *source, const rt_plan *plan, const rt_device *device,
                        const char *soc, rt_error *error);

/* Releases it; launches that were taken are no longer valid. NULL is ignored. */
void rt_tuned_close(rt_tuned *tuned);

/* Takes the launch of a tuning key, and counts it as used; false where there is none. Its strings lie in the file. */
bool rt_tuned_take(rt_tuned *tuned, const char *key, rt_launch *launch);

/* Says that a launch that was taken is not used after all, since the device refused it. */
void rt_tuned_give_back(rt_tuned *tuned, uint32_t step, const char *why);

/* How the file was used. The fit's reason also tells the last launch that was given back. */
const rt_fit *rt_tuned_fit(const rt_tuned *tuned);
uint32_t rt_tuned_entry_count(const rt_tuned *tuned); /* of the chosen set */
uint32_t rt_tuned_used(const rt_tuned *tuned);

#endif
