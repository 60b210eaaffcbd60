/* Compiled programs from a file. */
#ifndef RT_KERNELS_CACHE_H
#define RT_KERNELS_CACHE_H

#include "fingerprint.h"

typedef struct {
    rt_container file;
    rt_match match;
    const rt_binary_record *entries; /* of the chosen set */
    uint32_t entry_count;
    char reason[256]; /* why not exact */
} rt_kernels_cache;

/* Checks the whole file, and chooses a set: only an exact match. */
rt_status rt_kernels_open(rt_kernels_cache *cache, const rt_bytes *bytes, const char *name, const rt_plan *plan,
                          const rt_device *device, const char *soc, rt_error *error);

/* The binary for `<source_hash>|<options>`; NULL where there is none. */
const uint8_t *rt_kernels_find(const rt_kernels_cache *cache, const char *source_hash, const char *options,
                               size_t *size);

#endif
