/* Mutations of container files: raw bytes, or single fields with the checksum repaired, so that the checks behind the
 * checksum are reached. */
#ifndef RT_FUZZ_MUTATE_H
#define RT_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* A file in memory; `data` is the C library's, grows as need be and is never freed. */
typedef struct {
    uint8_t *data;
    size_t size, capacity;
} fuzz_file;

/* A sequence that its seed determines. */
typedef struct {
    uint64_t state;
} fuzz_random;

/* The next number below a limit, 0 where the limit is 0. */
uint64_t fuzz_below(fuzz_random *random, uint64_t limit);

/* Becomes a copy of another file. */
void fuzz_copy(fuzz_file *file, const fuzz_file *source);
/* Flips, overwrites, cuts or extends bytes. */
void fuzz_bytes(fuzz_file *file, fuzz_random *random);
/* Changes one field of a record or of the section table, and repairs the checksum. */
void fuzz_field(fuzz_file *file, fuzz_random *random);
/* Makes size and checksum right. */
void fuzz_repair(fuzz_file *file);
/* The first record of a section, NULL where there is none. */
void *fuzz_section(const fuzz_file *file, uint32_t id);

#endif
