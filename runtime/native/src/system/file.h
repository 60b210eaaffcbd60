/* Files: their content in memory, and files written whole.
 *
 * State: each rt_bytes, made and released here. Nothing is cached, and no descriptor stays open.
 */
#ifndef RT_FILE_H
#define RT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../include/farmrt.h"

/* Where the content of a file comes from: a path or, where that is NULL, the caller's memory. A value. */
typedef struct {
    const char *path;
    const void *bytes;
    size_t size;
    const char *title; /* what messages call it where it has no path */
} rt_source;

/* The content of a file. Written by file.c alone. */
typedef struct {
    const char *name;    /* for messages */
    const uint8_t *data; /* aligned to 64 bytes, never NULL */
    size_t size;
} rt_bytes;

/* Reads into memory of its own, or maps: a mapping costs nothing until it is read, but whoever truncates the file ends
 * this process, so it is for files too large to read. */
typedef enum { RT_READING_COPY, RT_READING_MAP } rt_reading;

/* Whether there is anything to open. */
bool rt_source_is_given(const rt_source *source);

/* Opens the content of a given source, for rt_bytes_close. The caller's memory is used where it lies (it must then
 * outlive the content), or copied where it is not aligned; the path and title need not outlive the call.
 * RT_IO for a file that cannot be read, RT_NO_MEMORY; `*bytes` is NULL then. */
rt_status rt_bytes_open(const rt_bytes **bytes, const rt_source *source, rt_reading reading, rt_error *error);

/* Releases the content and all that points into it; NULL is ignored. */
void rt_bytes_close(const rt_bytes *bytes);

/* Reads exactly `size` bytes into the caller's memory; RT_BAD_COMMAND when the file has another size, else RT_IO. */
rt_status rt_file_read(const char *path, void *target, size_t size, rt_error *error);

/* Reads up to size - 1 bytes of a small text file (as in /proc) and ends them with NUL; false, and an empty text, when
 * there is none. */
bool rt_file_read_text(const char *path, char *text, size_t size);

/* Writes under a temporary name in the same folder, then renames: no reader ever sees half a file. On RT_IO whatever
 * was there before is there still. */
rt_status rt_file_write(const char *path, const void *data, size_t size, rt_error *error);

/* Whether there is a file, folder or device of this name that may be read. */
bool rt_file_exists(const char *path);

/* Writes all to a descriptor, however often the system takes less; false when nobody reads it any more. */
bool rt_descriptor_write(int descriptor, const void *data, size_t size);

#endif
