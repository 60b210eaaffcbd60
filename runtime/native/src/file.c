#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PATH_BYTES = 4096, ALIGNMENT = 64 };

static rt_status io_error(rt_error *error, const char *path, const char *what) {
    return rt_error_set(error, RT_IO, "%s: %s: %s", path, what, strerror(errno));
}

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

rt_status rt_bytes_map(rt_bytes *bytes, const char *path, rt_error *error) {
    static const uint64_t empty[8];
    int descriptor;
    size_t size;
    memset(bytes, 0, sizeof *bytes);
    rt_status status = file_open(path, &descriptor, &size, error);
    if (status != RT_OK) return status;
    bytes->data = (const uint8_t *)empty;
    if (size > 0) {
        /* Writable, though nothing writes: drivers that pin memory for a device refuse read-only pages. */
        void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
        if (mapped == MAP_FAILED) {
            status = io_error(error, path, "cannot be mapped");
        } else {
            *bytes = (rt_bytes){.data = mapped, .size = size, .mapped = mapped};
        }
    }
    close(descriptor);
    return status;
}

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

rt_status rt_bytes_read(rt_bytes *bytes, const char *path, rt_error *error) {
    int descriptor;
    size_t size;
    memset(bytes, 0, sizeof *bytes);
    rt_status status = file_open(path, &descriptor, &size, error);
    if (status != RT_OK) return status;
    bytes->copied = rt_memory_allocate_aligned(size, 1);
    if (bytes->copied == NULL) {
        status = rt_error_no_memory(error, "a file");
    } else if (!read_fully(descriptor, bytes->copied, size)) {
        status = io_error(error, path, "cannot be read");
    }
    bytes->data = bytes->copied;
    bytes->size = size;
    close(descriptor);
    return status;
}

rt_status rt_bytes_wrap(rt_bytes *bytes, const void *data, size_t size, rt_error *error) {
    *bytes = (rt_bytes){.data = data, .size = size};
    if ((uintptr_t)data % ALIGNMENT == 0 && data != NULL) return RT_OK;
    bytes->copied = rt_memory_allocate_aligned(size, 1);
    if (bytes->copied == NULL) return rt_error_no_memory(error, "a copy of the file");
    if (size > 0) memcpy(bytes->copied, data, size);
    bytes->data = bytes->copied;
    return RT_OK;
}

void rt_bytes_release(rt_bytes *bytes) {
    if (bytes->mapped != NULL) munmap(bytes->mapped, bytes->size);
    rt_memory_free_aligned(bytes->copied);
    memset(bytes, 0, sizeof *bytes);
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
    bool written = rt_descriptor_write(descriptor, data, size) && fsync(descriptor) == 0;
    written = close(descriptor) == 0 && written;
    if (written && rename(temporary, path) == 0) return RT_OK;
    rt_status status = io_error(error, path, "cannot be written, nothing was changed");
    unlink(temporary);
    return status;
}
