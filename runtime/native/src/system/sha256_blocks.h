/* The compression function of SHA-256 in one or two forms: of any CPU, and of this one's instructions for it. */
#ifndef RT_SHA256_BLOCKS_H
#define RT_SHA256_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* FIPS 180-4, 4.2.2. */
extern const uint32_t rt_sha256_constants[64];

/* Compresses `count` blocks of 64 bytes into the state. */
typedef void rt_sha256_blocks(uint32_t state[8], const uint8_t *blocks, size_t count);

/* The form that the CPU has instructions for; NULL where it, the system or the compiler knows none. */
rt_sha256_blocks *rt_sha256_blocks_native(void);

#endif
