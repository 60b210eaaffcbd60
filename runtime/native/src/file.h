/* Files: read, mapped, written whole. */
#ifndef RT_FILE_H
#define RT_FILE_H

#include "base.h"

/* Bytes of a file or of the caller's memory, aligned to 64. */
typedef struct {
    const uint8_t *data;
    size_t size;
    void *mapped; /* what must be unmapped */
    void *copied; /* what must be freed */
} rt_bytes;

/* Whoever truncates a mapped file ends this process: only for files too large to read. */
rt_status rt_bytes_map(rt_bytes *bytes, const char *path, rt_error *error);
rt_status rt_bytes_read(rt_bytes *bytes, const char *path, rt_error *error);
/* Uses the caller's memory, or a copy where it is not aligned. */
rt_status rt_bytes_wrap(rt_bytes *bytes, const void *data, size_t size, rt_error *error);
void rt_bytes_release(rt_bytes *bytes);

/* Reads exactly `size` bytes; RT_BAD_COMMAND when the file has another size. */
rt_status rt_file_read(const char *path, void *target, size_t size, rt_error *error);
/* Reads up to size - 1 bytes of a small text file (as in /proc) and ends them with NUL; false when there is none. */
bool rt_file_read_text(const char *path, char *text, size_t size);
/* Writes under a temporary name, then renames: no reader ever sees half a file. */
rt_status rt_file_write(const char *path, const void *data, size_t size, rt_error *error);
bool rt_file_exists(const char *path);

/* Writes all to a descriptor; false when it is closed. */
bool rt_descriptor_write(int descriptor, const void *data, size_t size);

#endif
