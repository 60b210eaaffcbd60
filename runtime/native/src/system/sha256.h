/* SHA-256 (FIPS 180-4), by the CPU's own instructions where it has them. */
#ifndef RT_SHA256_H
#define RT_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { RT_SHA256_BYTES = 32 };

/* A hash that is being computed. A value; zeros are none: rt_sha256_begin makes it. */
typedef struct {
    uint32_t state[8];
    uint64_t size; /* bytes so far */
    uint8_t rest[64];
} rt_sha256;

/* The hash of nothing yet. */
rt_sha256 rt_sha256_begin(void);

/* Goes on with more bytes. */
void rt_sha256_update(rt_sha256 *hash, const void *data, size_t size);

/* Ends it: the hash of all bytes. */
void rt_sha256_end(rt_sha256 *hash, uint8_t digest[RT_SHA256_BYTES]);

#endif
