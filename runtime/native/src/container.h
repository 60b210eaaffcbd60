/* The sectioned container that plans, tuned parameters and compiled kernels share.
 *
 * Once opened, every section lies within the file, has records of the expected size, and is aligned; every string
 * offset below strings_size is NUL-terminated. What the records say is checked by their owners.
 */
#ifndef RT_CONTAINER_H
#define RT_CONTAINER_H

#include "base.h"
#include "file.h"
#include "format.h"

enum { RT_SECTION_COUNT = RT_SECTION_ID_BLOB + 1 };

typedef struct {
    const void *records;
    uint32_t count;
} rt_section;

typedef struct {
    const char *name; /* of the file, for messages */
    const char *strings;
    uint64_t strings_size;
    rt_section sections[RT_SECTION_COUNT];
} rt_container;

/* `name` and the bytes must outlive the container. */
rt_status rt_container_open(rt_container *container, const rt_bytes *bytes, const char *magic, const char *name,
                            rt_error *error);

/* Whether `offset` is a string of the file. */
bool rt_container_has_string(const rt_container *container, uint32_t offset);
/* A checked string. */
const char *rt_container_string(const rt_container *container, uint32_t offset);

#endif
