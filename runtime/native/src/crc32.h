/* CRC-32 (IEEE 802.3, as zlib's). */
#ifndef RT_CRC32_H
#define RT_CRC32_H

#include "base.h"

/* Continues `crc` (0 at first) over more bytes. */
uint32_t rt_crc32_update(uint32_t crc, const void *data, size_t size);

#endif
