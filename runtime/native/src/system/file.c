/* Plans and tuned files are read into memory: whoever changes them afterwards changes nothing. Data files can be
 * hundreds of megabytes and are mapped; such a file must be replaced by renaming, as rt_file_write does, never be
 * written into.
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocation.h"
#include "errors.h"

enum { MAX_PATH_BYTES = 4096, ALIGNMENT = 64 };

/* What an rt_bytes that is handed out begins: with what must be released. */
typedef struct {
    rt_bytes bytes;
    char *name;
    void *mapped; /* for munmap, of bytes.size */
    void *copied; /* for rt_memory_free_aligned */
} content;

/* RT_IO with what the system says; right behind the call that failed, since it reads errno. */
static rt_status io_error(rt_error *error, const char *path, const char *what) {
    return rt_error_set(error, RT_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* Opens a regular file to be read from its start, and tells its size. The descriptor is the caller's on RT_OK. */
static rt_status file_open(const char *path, int *descriptor, size_t *size, rt_error *error) {
    *descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (*descriptor < 0) return io_error(error, path, "cannot be opened");
    if (read(*descriptor, size, 0) < 0) { /* a folder */
        io_error(error, path, "cannot be read");
        close(*descriptor);
        return RT_IO;
    }
    off_t end = lseek(*descriptor, 0, SEEK_END);
    if (end >= 0 && lseek(*descriptor, 0, SEEK_SET) == 0 && (uint64_t)end <= SIZE_MAX) {
        *size = (size_t)end;
        return RT_OK;
    }
    close(*descriptor);
    return rt_error_set(error, RT_IO, "%s: is not a regular file", path);
}

/* Reads until `size` bytes are there; false, with errno set, for an error or an early end. */
static bool read_fully(int descriptor, uint8_t *target, size_t size) {
    while (size > 0) {
        ssize_t count = read(descriptor, target, size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        target += count;
        size -= (size_t)count;
    }
    return true;
}

/* Maps the whole file, private: a write would not reach the file. */
static rt_status content_map(content *made, int descriptor, size_t size, rt_error *error) {
    static const uint64_t empty[8] __attribute__((aligned(ALIGNMENT)));
    made->bytes.data = (const uint8_t *)empty; /* nothing of no bytes can be mapped */
    if (size == 0) return RT_OK;
    /* Writable, though nothing writes: drivers that pin memory for a device refuse read-only pages. */
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) return io_error(error, made->name, "cannot be mapped");
    made->bytes.data = made->mapped = mapped;
    made->bytes.size = size;
    return RT_OK;
}

/* Reads the whole file into aligned memory. */
static rt_status content_read(content *made, int descriptor, size_t size, rt_error *error) {
    made->bytes.data = made->copied = rt_memory_allocate_aligned(size, 1);
    made->bytes.size = size;
    if (made->copied == NULL) return rt_error_no_memory(error, "a file");
    return read_fully(descriptor, made->copied, size) ? RT_OK : io_error(error, made->name, "cannot be read");
}

/* Fills the content from a path; the descriptor is closed again, which a mapping survives. RT_IO or RT_NO_MEMORY; what
 * was made until then is released with the content. */
static rt_status content_open(content *made, const char *path, rt_reading reading, rt_error *error) {
    int descriptor;
    size_t size;
    rt_status status = file_open(path, &descriptor, &size, error);
    if (status != RT_OK) return status;
    status = (reading == RT_READING_MAP ? content_map : content_read)(made, descriptor, size, error);
    close(descriptor);
    return status;
}

/* Fills the content from the caller's memory, which is used where it lies, or copied where it is not aligned. */
static rt_status content_wrap(content *made, const void *data, size_t size, rt_error *error) {
    made->bytes.data = data;
    made->bytes.size = size;
    if ((uintptr_t)data % ALIGNMENT == 0) return RT_OK;
    made->bytes.data = made->copied = rt_memory_allocate_aligned(size, 1);
    if (made->copied == NULL) return rt_error_no_memory(error, "a copy of the file");
    memcpy(made->copied, data, size);
    return RT_OK;
}

bool rt_source_is_given(const rt_source *source) { return source->path != NULL || source->bytes != NULL; }

rt_status rt_bytes_open(const rt_bytes **bytes, const rt_source *source, rt_reading reading, rt_error *error) {
    content *made = rt_memory_allocate(1, sizeof *made);
    *bytes = NULL;
    if (made == NULL) return rt_error_no_memory(error, "a file");
    made->bytes.name = made->name = rt_memory_copy_string(source->path ? source->path : source->title);
    rt_status status = made->name ? RT_OK : rt_error_no_memory(error, "names");
    if (status == RT_OK) {
        status = source->path ? content_open(made, source->path, reading, error)
                              : content_wrap(made, source->bytes, source->size, error);
    }
    if (status == RT_OK) {
        *bytes = &made->bytes;
    } else {
        rt_bytes_close(&made->bytes);
    }
    return status;
}

void rt_bytes_close(const rt_bytes *bytes) {
    content *own = (content *)(uintptr_t)bytes; /* the bytes are its first member */
    if (own == NULL) return;
    if (own->mapped != NULL) munmap(own->mapped, own->bytes.size);
    rt_memory_free_aligned(own->copied);
    rt_memory_free(own->name);
    rt_memory_free(own);
}

rt_status rt_file_read(const char *path, void *target, size_t size, rt_error *error) {
    int descriptor;
    size_t found;
    rt_status status = file_open(path, &descriptor, &found, error);
    if (status != RT_OK) return status;
    if (found != size) {
        status = rt_error_set(error, RT_BAD_COMMAND, "%s: %zu bytes, %zu are needed", path, found, size);
    } else if (!read_fully(descriptor, target, size)) {
        status = io_error(error, path, "cannot be read");
    }
    close(descriptor);
    return status;
}

bool rt_file_read_text(const char *path, char *text, size_t size) {
    size_t length = 0;
    ssize_t count = 0;
    text[0] = '\0';
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return false;
    while (length + 1 < size && (count = read(descriptor, text + length, size - 1 - length)) > 0) {
        length += (size_t)count;
    }
    text[length] = '\0';
    close(descriptor);
    return count >= 0 && length > 0;
}

bool rt_file_exists(const char *path) { return access(path, R_OK) == 0; }

bool rt_descriptor_write(int descriptor, const void *data, size_t size) {
    const uint8_t *rest = data;
    while (size > 0) {
        ssize_t count = write(descriptor, rest, size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        rest += count;
        size -= (size_t)count;
    }
    return true;
}

rt_status rt_file_write(const char *path, const void *data, size_t size, rt_error *error) {
    char temporary[MAX_PATH_BYTES];
    int length = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary) {
        return rt_error_set(error, RT_IO, "the path is too long: %.200s", path);
    }
    int descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) return io_error(error, path, "cannot be written");
    /* On the disk before it has its name: after a power cut there is the old file or the new. */
    bool written = rt_descriptor_write(descriptor, data, size) && fsync(descriptor) == 0;
    written = close(descriptor) == 0 && written;
    if (written && rename(temporary, path) == 0) return RT_OK;
    rt_status status = io_error(error, path, "cannot be written, nothing was changed");
    unlink(temporary);
    return status;
}
