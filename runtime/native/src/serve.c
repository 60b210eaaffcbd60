#include "serve.h"

#include <errno.h>
#include <unistd.h>

#include "session.h"

enum { MAX_LINE_BYTES = 1 << 20 };

static rt_status dispatch(rt_session *now, const rt_command_entry *entry, rt_command *command) {
    for (; entry->name != NULL; entry++) {
        if (strcmp(entry->name, command->name) == 0) return entry->handle(now, command);
    }
    return rt_error_set(command->error, RT_BAD_COMMAND, "unknown command '%s'", command->name);
}

/* Sends what the handler wrote, or the error instead; false when nobody reads any more. */
static bool finish_answer(rt_session *now, rt_status status, const rt_error *error) {
    if (status != RT_OK) {
        rt_answer_begin(&now->json);
        rt_answer_error(&now->json, error);
    }
    return rt_answer_send(now->answers, &now->json);
}

static bool line_answer(rt_session *now, char *line) {
    rt_command command;
    rt_error error = {0};
    rt_answer_begin(&now->json);
    rt_json_bool(&now->json, "ok", true);
    rt_status status = rt_command_parse(&command, line, &error);
    if (status == RT_OK) status = dispatch(now, rt_serve_commands, &command);
    return finish_answer(now, status, &error);
}

/* Lines from standard input. */
typedef struct {
    char *text;
    size_t start, end;
    bool overlong; /* the line's beginning was dropped */
} reader;

/* The next line without its newline; NULL at the end of input. */
static char *line_read(reader *input) {
    for (;;) {
        char *line = input->text + input->start;
        char *newline = memchr(line, '\n', input->end - input->start);
        if (newline != NULL) {
            *newline = '\0';
            input->start = (size_t)(newline + 1 - input->text);
            return line;
        }
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

static bool overlong_answer(rt_session *now) {
    rt_error error;
    rt_error_set(&error, RT_BAD_COMMAND, "a line of more than %d bytes", MAX_LINE_BYTES);
    return finish_answer(now, RT_BAD_COMMAND, &error);
}

static bool is_quit(const char *line) {
    size_t length = strcspn(line, " \t\r");
    return length == 4 && memcmp(line, "quit", 4) == 0;
}

static bool quit_answer(rt_session *now) {
    rt_answer_begin(&now->json);
    rt_json_bool(&now->json, "ok", true);
    return rt_answer_send(now->answers, &now->json);
}

static void lines_answer(rt_session *now, reader *input) {
    bool heard = true;
    for (char *line; heard && (line = line_read(input)) != NULL;) {
        if (is_quit(line)) {
            quit_answer(now);
            return;
        }
        heard = input->overlong ? overlong_answer(now) : line_answer(now, line);
        input->overlong = false;
    }
}

int rt_serve(int answers) {
    rt_session now = {.answers = answers};
    reader input = {.text = rt_memory_allocate(MAX_LINE_BYTES, 1)};
    if (input.text == NULL) return RT_EXIT_FAILED;
    lines_answer(&now, &input);
    rt_engine_destroy(now.engine);
    rt_json_release(&now.json);
    rt_memory_free(input.text);
    return RT_EXIT_DONE;
}

int rt_serve_once(int answers, char **words, int count) {
    rt_session now = {.answers = answers};
    rt_command command;
    rt_error error = {0};
    rt_answer_begin(&now.json);
    rt_json_bool(&now.json, "ok", true);
    rt_status status = rt_command_from_words(&command, words, count, &error);
    if (status == RT_OK) status = dispatch(&now, rt_once_commands, &command);
    finish_answer(&now, status, &error);
    rt_engine_destroy(now.engine);
    rt_json_release(&now.json);
    if (status == RT_OK) return RT_EXIT_DONE;
    return status == RT_BAD_COMMAND ? RT_EXIT_USAGE : RT_EXIT_FAILED;
}
