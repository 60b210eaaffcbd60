/* Tuned parameters: how each step with a tuning key is launched. */
#ifndef RT_TUNED_H
#define RT_TUNED_H

#include "fingerprint.h"

typedef struct {
    rt_container file;
    rt_match match;
    const rt_tuned_record *entries; /* of the chosen set */
    uint32_t entry_count;
    uint32_t used;
    char reason[256]; /* why not exact */
} rt_tuned;

/* Checks the whole file, and chooses a set. */
rt_status rt_tuned_open(rt_tuned *tuned, const rt_bytes *bytes, const char *name, const rt_plan *plan,
                        const rt_device *device, const char *soc, rt_error *error);

/* The entry for a tuning key, or NULL. */
const rt_tuned_record *rt_tuned_find(const rt_tuned *tuned, const char *key);

#endif
