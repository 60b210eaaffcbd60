/* The sectioned container that plans, tuned parameters and compiled kernels share (docs/farmrt.md; the records are
 * those of format.h).
 *
 * Once opened, every section lies within the file, has records of the expected size, and is aligned; every string
 * offset below strings_size is NUL-terminated. What the records say is checked by the part that reads them.
 */
#ifndef RT_CONTAINER_H
#define RT_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../system/file.h"
#include "format.h"

/* The records of one section; none where the file does not have it. Written by container.c alone. */
typedef struct {
    const void *records;
    uint32_t count;
} rt_section;

/* A view of an open file, which must outlive it; there is nothing to release. Written by container.c alone. */
typedef struct {
    const char *name; /* of the file, for messages */
    const char *strings;
    uint64_t strings_size;
    rt_section sections[RT_SECTION_ID_COUNT]; /* by RT_SECTION_ID_... */
} rt_container;

/* Checks header, checksum, section table and strings. RT_BAD_FILE, with the file's name, for what is not a whole
 * container with this magic and version. */
rt_status rt_container_open(rt_container *container, const rt_bytes *bytes, const char *magic, rt_error *error);

/* Whether `offset`, as a record states it, is a string of the file. */
bool rt_container_has_string(const rt_container *container, uint32_t offset);

/* The string at an offset that rt_container_has_string has accepted; it lies in the file. */
const char *rt_container_string(const rt_container *container, uint32_t offset);

#endif
