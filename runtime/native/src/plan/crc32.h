/* CRC-32 (IEEE 802.3, as zlib's): what the files' checksums are. */
#ifndef RT_CRC32_H
#define RT_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 at first) over more bytes. From any thread: the first call makes the tables, once. */
uint32_t rt_crc32_update(uint32_t crc, const void *data, size_t size);

#endif
