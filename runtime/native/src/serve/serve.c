/* One answer for each line, whatever is in the line: the client counts on it. Standard input is read without stdio, so
 * that a line that is too long can be dropped as it comes, and the next one answered. */
#include "serve.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "../system/allocation.h"
#include "../system/clock.h"
#include "commands.h"
#include "../system/errors.h"
#include "../system/exit_status.h"
#include "../system/log.h"

enum { MAX_LINE_BYTES = 1 << 20 };

/* Executes the command by its name, from a table that an entry without a name ends. */
static rt_status dispatch(rt_session *session, const rt_command_entry *entry, rt_command *command, rt_error *error) {
    uint64_t start_ns = rt_clock_ns();
    for (; entry->name != NULL; entry++) {
        if (strcmp(entry->name, rt_command_name(command)) != 0) continue;
        rt_status status = entry->handle(session, command, error);
        double ms = (double)(rt_clock_ns() - start_ns) / 1e6;
        rt_log(RT_LOG_INFO, "%s: %s after %.3f ms", entry->name, rt_status_name(status), ms);
        return status;
    }
    return rt_error_set(error, RT_BAD_COMMAND, "unknown command '%s'", rt_command_name(command));
}

/* Executes one line of `serve` and sends the answer; false when nobody reads any more. */
static bool line_answer(rt_session *session, char *line) {
    rt_command *command;
    rt_error error = {0};
    rt_session_begin(session);
    rt_status status = rt_command_from_line(&command, line, &error);
    if (status == RT_OK) status = dispatch(session, rt_serve_commands, command, &error);
    rt_command_destroy(command);
    return rt_session_send(session, status, &error);
}

/* Lines from standard input: what was read and not yet answered lies from `start` to `end`. */
typedef struct {
    char *text;
    size_t start, end;
    bool overlong; /* the line's beginning was dropped */
} reader;

/* The next line without its newline, valid until the next call; NULL at the end of input. A line without an end that
 * fills the memory is dropped as it comes, and `overlong` set for the rest of it. */
static char *line_read(reader *input) {
    for (;;) {
        char *line = input->text + input->start;
        char *newline = memchr(line, '\n', input->end - input->start);
        if (newline != NULL) {
            *newline = '\0';
            input->start = (size_t)(newline + 1 - input->text);
            return line;
        }
        /* No whole line: what there is of one moves to the front, and more is read behind it. */
        memmove(input->text, line, input->end - input->start);
        input->end -= input->start;
        input->start = 0;
        if (input->end == MAX_LINE_BYTES) input->overlong = true, input->end = 0;
        ssize_t count = read(STDIN_FILENO, input->text + input->end, MAX_LINE_BYTES - input->end);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return NULL;
        input->end += (size_t)count;
    }
}

/* The answer to the end of a line that was too long to be kept. */
static bool overlong_answer(rt_session *session) {
    rt_error error;
    rt_error_set(&error, RT_BAD_COMMAND, "a line of more than %d bytes", MAX_LINE_BYTES);
    return rt_session_send(session, RT_BAD_COMMAND, &error);
}

/* Whether a line is the command `quit`, which this file answers itself, with or without words behind it. */
static bool is_quit(const char *line) {
    size_t length = strcspn(line, " \t\r");
    return length == 4 && memcmp(line, "quit", 4) == 0;
}

/* Answers line by line, until there are no more, `quit`, or nobody listens. */
static void lines_answer(rt_session *session, reader *input) {
    bool heard = true;
    for (char *line; heard && (line = line_read(input)) != NULL;) {
        if (is_quit(line)) {
            rt_session_begin(session);
            rt_session_send(session, RT_OK, NULL);
            return;
        }
        heard = input->overlong ? overlong_answer(session) : line_answer(session, line);
        input->overlong = false;
    }
}

int rt_serve(int answers) {
    rt_session *session = rt_session_create(answers);
    reader input = {.text = rt_memory_allocate(MAX_LINE_BYTES, 1)};
    bool ready = session != NULL && input.text != NULL;
    if (ready) rt_session_tell_progress(session);
    if (ready) lines_answer(session, &input);
    rt_session_destroy(session);
    rt_memory_free(input.text);
    return ready ? RT_EXIT_DONE : RT_EXIT_FAILED;
}

/* The command of the command line, answered; its status. */
static rt_status words_answer(rt_session *session, char **words, int count) {
    rt_command *command;
    rt_error error = {0};
    rt_session_begin(session);
    rt_status status = rt_command_from_words(&command, words, count, &error);
    if (status == RT_OK) status = dispatch(session, rt_once_commands, command, &error);
    rt_command_destroy(command);
    rt_session_send(session, status, &error);
    return status;
}

int rt_serve_once(int answers, char **words, int count) {
    rt_session *session = rt_session_create(answers);
    if (session == NULL) return RT_EXIT_FAILED;
    rt_status status = words_answer(session, words, count);
    rt_session_destroy(session);
    if (status == RT_OK) return RT_EXIT_DONE;
    return status == RT_BAD_COMMAND ? RT_EXIT_USAGE : RT_EXIT_FAILED;
}
