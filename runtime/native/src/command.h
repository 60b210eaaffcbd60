/* One command: a word, then key=value words (docs/farmrt.md has the grammar). */
#ifndef RT_COMMAND_H
#define RT_COMMAND_H

#include "base.h"

enum { RT_MAX_PAIRS = 64 };

typedef struct {
    char *key, *value;
    bool taken;
} rt_pair;

typedef struct {
    char *name;
    rt_pair pairs[RT_MAX_PAIRS];
    uint32_t pair_count;
    rt_status status; /* of the values taken so far */
    rt_error *error;
} rt_command;

/* Splits `line` in place; the command points into it. RT_BAD_COMMAND for bad words. */
rt_status rt_command_parse(rt_command *command, char *line, rt_error *error);
/* The same from words that need no decoding. */
rt_status rt_command_from_words(rt_command *command, char **words, int count, rt_error *error);

/* Values by key. Each is taken at most once; a bad one sets the command's status, so that a handler takes all and then
 * calls rt_command_finish. */
const char *rt_command_text(rt_command *command, const char *key);     /* NULL where it is not given */
const char *rt_command_required(rt_command *command, const char *key); /* an error and "" where it is not given */
uint32_t rt_command_number(rt_command *command, const char *key, uint32_t fallback, uint32_t highest);
double rt_command_decimal(rt_command *command, const char *key, double fallback);
/* Numbers separated by commas; returns how many there were, 0 where the key is not given. */
uint32_t rt_command_numbers(rt_command *command, const char *key, uint32_t *values, uint32_t capacity);
/* Index of the value in `words`, 0 where the key is not given. */
uint32_t rt_command_choice(rt_command *command, const char *key, const char *const *words, uint32_t count);
/* The next pair whose key starts with `prefix`, NULL when there is none left. */
rt_pair *rt_command_next(rt_command *command, const char *prefix);

/* RT_BAD_COMMAND where a value was bad or a key was not taken. */
rt_status rt_command_finish(rt_command *command);

#endif
