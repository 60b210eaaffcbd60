/* Slicing by eight: eight bytes a turn through eight tables (Kounavis and Berry, 2005). */
#include "crc32.h"

#include <pthread.h>
#include <string.h>

enum { SLICES = 8 };
static const uint32_t polynomial = 0xEDB88320u;

/* tables[k][b]: the checksum of byte b followed by k zero bytes. Written once, by tables_make. */
static uint32_t tables[SLICES][256];
static pthread_once_t tables_made = PTHREAD_ONCE_INIT;

/* Fills the tables, the first bit by bit and each other from the one before it. */
static void tables_make(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? polynomial : 0);
        tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int slice = 1; slice < SLICES; slice++) {
            uint32_t before = tables[slice - 1][byte];
            tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xFF];
        }
    }
}

/* Continues an inverted checksum over eight bytes: one look-up for each, none of which waits for another. */
static uint32_t update_eight(uint32_t crc, const uint8_t *bytes) {
    uint32_t low, high;
    memcpy(&low, bytes, 4);
    memcpy(&high, bytes + 4, 4);
    low ^= crc;
    return tables[7][low & 0xFF] ^ tables[6][(low >> 8) & 0xFF] ^ tables[5][(low >> 16) & 0xFF] ^ tables[4][low >> 24] ^
           tables[3][high & 0xFF] ^ tables[2][(high >> 8) & 0xFF] ^ tables[1][(high >> 16) & 0xFF] ^
           tables[0][high >> 24];
}

uint32_t rt_crc32_update(uint32_t crc, const void *data, size_t size) {
    const uint8_t *bytes = data;
    pthread_once(&tables_made, tables_make);
    crc = ~crc;
    for (; size >= SLICES; size -= SLICES, bytes += SLICES) crc = update_eight(crc, bytes);
    for (; size > 0; size--, bytes++) crc = (crc >> 8) ^ tables[0][(crc ^ *bytes) & 0xFF];
    return ~crc;
}
