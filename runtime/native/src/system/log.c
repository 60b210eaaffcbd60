/* A line is one write, so that lines of several threads do not mix. */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arithmetic.h"
#include "file.h"

static atomic_int log_level;

const char *const rt_log_words[3] = {"off", "info", "debug"};

void rt_log_set(rt_log_level level) { atomic_store(&log_level, (int)level); }

bool rt_log_set_word(const char *word) {
    for (size_t i = 0; i < RT_COUNT(rt_log_words); i++) {
        if (strcmp(word, rt_log_words[i]) != 0) continue;
        rt_log_set((rt_log_level)i);
        return true;
    }
    return false;
}

void rt_log(rt_log_level level, const char *format, ...) {
    char line[1024];
    va_list arguments;
    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed)) return;
    int used = snprintf(line, sizeof line, "farmrt: %s: ", rt_log_words[level]);
    va_start(arguments, format);
    int length = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    size_t end = strlen(line);
    line[end] = '\n';
    rt_descriptor_write(STDERR_FILENO, line, end + 1);
}
