/* Files are read in pieces that stay in the cache: the memory that a hash takes does not grow with the file. */
#include "digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exit_status.h"
#include "file.h"
#include "sha256.h"

enum { PIECE = 128 * 1024 };

/* The file's hash; false, with errno, where it cannot be read. */
static bool file_hash(const char *name, uint8_t digest[RT_SHA256_BYTES]) {
    static uint8_t piece[PIECE];
    ssize_t size;
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    rt_sha256 hash = rt_sha256_begin();
    while ((size = read(file, piece, sizeof piece)) > 0 || (size < 0 && errno == EINTR)) {
        if (size > 0) rt_sha256_update(&hash, piece, (size_t)size);
    }
    int reason = errno;
    close(file);
    errno = reason;
    rt_sha256_end(&hash, digest);
    return size == 0;
}

static bool line_print(int answers, const uint8_t digest[RT_SHA256_BYTES], const char *name) {
    char text[2 * RT_SHA256_BYTES + 3];
    for (int i = 0; i < RT_SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    memcpy(text + 2 * RT_SHA256_BYTES, "  ", 2);
    return rt_descriptor_write(answers, text, sizeof text - 1) && rt_descriptor_write(answers, name, strlen(name)) &&
           rt_descriptor_write(answers, "\n", 1);
}

int rt_digest(int answers, char **names, int count) {
    int status = RT_EXIT_DONE;
    for (int i = 0; i < count; i++) {
        uint8_t digest[RT_SHA256_BYTES];
        if (!file_hash(names[i], digest)) {
            fprintf(stderr, "farmrt: %s: %s\n", names[i], strerror(errno));
            status = RT_EXIT_FAILED;
        } else if (!line_print(answers, digest, names[i])) {
            return RT_EXIT_FAILED;
        }
    }
    return status;
}
