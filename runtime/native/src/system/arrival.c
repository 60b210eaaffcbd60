/* A file's end is its end only when the sender has said that all were sent: before that, more is waited for. */
#include "arrival.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocation.h"
#include "exit_status.h"
#include "file.h"
#include "sha256.h"

enum { PIECE = 128 * 1024, POLL_MS = 3, BEFORE_DIGEST = 7, LINE = BEFORE_DIGEST + 2 * RT_SHA256_BYTES + 1 };

typedef struct {
    const char *name;
    uint64_t size;
    uint8_t digest[RT_SHA256_BYTES];
} arrival;

/* Whether standard input has something to say, or has ended; waits for it up to POLL_MS. */
static bool sender_spoke(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, POLL_MS) > 0;
}

/* Takes one line from standard input, and nothing behind it, which is meant for others; false where it ends before. */
static bool line_take(void) {
    char letter = 0;
    ssize_t size;
    while ((size = read(STDIN_FILENO, &letter, 1)) == 1 || (size < 0 && errno == EINTR)) {
        if (size == 1 && letter == '\n') return true;
    }
    return false;
}

/* Opens a file as soon as it is there; -1, with errno, where it is not when the sender has spoken. */
static int arriving_open(const char *name) {
    for (bool last = false;; last = sender_spoke()) {
        int file = open(name, O_RDONLY | O_CLOEXEC);
        if (file >= 0 || errno != ENOENT || last) return file;
    }
}

/* Reads and hashes until the file has the size that it will have, or the sender has spoken; false where it cannot. */
static bool arriving_read(int file, uint64_t size, rt_sha256 *hash) {
    static uint8_t piece[PIECE];
    bool last = false;
    while (size > 0) {
        size_t wanted = size < PIECE ? (size_t)size : PIECE;
        ssize_t taken = read(file, piece, wanted);
        if (taken < 0 && errno != EINTR) return false;
        if (taken == 0 && last) return true;
        if (taken == 0) last = sender_spoke();
        if (taken > 0) rt_sha256_update(hash, piece, (size_t)taken);
        if (taken > 0) size -= (uint64_t)taken;
    }
    return true;
}

static bool arrival_hash(arrival *each) {
    int file = arriving_open(each->name);
    if (file < 0) return false;
    rt_sha256 hash = rt_sha256_begin();
    bool read = arriving_read(file, each->size, &hash);
    int reason = errno;
    close(file);
    errno = reason;
    rt_sha256_end(&hash, each->digest);
    return read;
}

/* Writes what there is into a line of LINE bytes, where it has the size that was hashed. */
static bool arrival_tell(char *line, const arrival *each) {
    static const char digits[] = "0123456789abcdef";
    struct stat status;
    if (stat(each->name, &status) != 0 || (uint64_t)status.st_size != each->size) {
        fprintf(stderr, "farmrt: %s: has another size\n", each->name);
        return false;
    }
    memcpy(line, access(each->name, X_OK) == 0 ? "file x " : "file - ", BEFORE_DIGEST);
    for (int i = 0; i < RT_SHA256_BYTES; i++) {
        line[BEFORE_DIGEST + 2 * i] = digits[each->digest[i] >> 4];
        line[BEFORE_DIGEST + 2 * i + 1] = digits[each->digest[i] & 15];
    }
    line[LINE - 1] = '\n';
    return true;
}

/* Reads a size in decimal digits; false for anything else. */
static bool size_parse(const char *word, uint64_t *size) {
    char *end;
    errno = 0;
    *size = strtoull(word, &end, 10);
    return errno == 0 && *word >= '0' && *word <= '9' && *end == '\0';
}

static bool all_hash(arrival *files, int count) {
    for (int i = 0; i < count; i++) {
        if (!arrival_hash(&files[i])) {
            fprintf(stderr, "farmrt: %s: %s\n", files[i].name, strerror(errno));
            return false;
        }
    }
    return true;
}

/* Tells of all files in one write: adb carries each in a packet that is answered. */
static int files_answer(int answers, arrival *files, int count) {
    if (!all_hash(files, count) || !line_take()) return RT_EXIT_FAILED;
    char *lines = rt_memory_allocate((size_t)count, LINE);
    bool told = lines != NULL;
    for (int i = 0; i < count && told; i++) told = arrival_tell(lines + (size_t)i * LINE, &files[i]);
    told = told && rt_descriptor_write(answers, lines, (size_t)count * LINE);
    rt_memory_free(lines);
    return told ? RT_EXIT_DONE : RT_EXIT_FAILED;
}

int rt_arrival(int answers, char **words, int count) {
    if (count < 2 || count % 2 != 0) return RT_EXIT_USAGE;
    arrival *files = rt_memory_allocate((size_t)count / 2, sizeof *files);
    if (files == NULL) return RT_EXIT_FAILED;
    bool parsed = true;
    for (int i = 0; i < count / 2; i++) {
        files[i].name = words[2 * i + 1];
        parsed = parsed && size_parse(words[2 * i], &files[i].size);
    }
    int status = parsed ? files_answer(answers, files, count / 2) : RT_EXIT_USAGE;
    rt_memory_free(files);
    return status;
}
