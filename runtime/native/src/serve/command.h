/* One command: a word, then key=value words (docs/farmrt.md has the grammar).
 *
 * State: an rt_command, which remembers what was taken and the first bad value. A handler takes all its values and then
 * calls rt_command_finish, so that a wrong command changes nothing.
 */
#ifndef RT_COMMAND_H
#define RT_COMMAND_H

#include <stdint.h>

#include "../../include/farmrt.h"

typedef struct rt_command rt_command;

/* Words `prefixNAME=VALUE` of a command: the part behind the prefix, and the value. A value. */
typedef struct {
    const char *name, *value;
} rt_named_value;

/* Splits `line` in place; the command points into it. The error is filled by this and by what takes values, and must
 * outlive the command, which is for rt_command_destroy. RT_BAD_COMMAND or RT_NO_MEMORY; `*command` is NULL then. */
rt_status rt_command_from_line(rt_command **command, char *line, rt_error *error);

/* The same from the words of a command line, at least one, which need no decoding. */
rt_status rt_command_from_words(rt_command **command, char **words, int count, rt_error *error);

/* Releases it; NULL is ignored. */
void rt_command_destroy(rt_command *command);

/* Its first word. */
const char *rt_command_name(const rt_command *command);

/* A text by key; it lies in the line. Where the key is not given: NULL, and of a required one "" and an error. */
const char *rt_command_text(rt_command *command, const char *key);
const char *rt_command_required(rt_command *command, const char *key);

/* A number by key, `fallback` where the key is not given or, with an error, is none between 0 and the highest. */
uint32_t rt_command_number(rt_command *command, const char *key, uint32_t fallback, uint32_t highest);
double rt_command_decimal(rt_command *command, const char *key, double fallback);

/* Numbers separated by commas; returns how many there were, 0 where the key is not given or, with an error, there are
 * more than the capacity. */
uint32_t rt_command_numbers(rt_command *command, const char *key, uint32_t *values, uint32_t capacity);

/* Index of the value in `words`, 0 where the key is not given or, with an error, the value is none of them. */
uint32_t rt_command_choice(rt_command *command, const char *key, const char *const *words, uint32_t count);

/* Takes all pairs whose key starts with a prefix, and returns how many there are; then the index-th of them, in the
 * order of the command, which must be below that number. */
uint32_t rt_command_prefixed_count(rt_command *command, const char *prefix);
rt_named_value rt_command_prefixed(const rt_command *command, const char *prefix, uint32_t index);

/* RT_BAD_COMMAND, with the first error, where a value was bad or a key was not taken. */
rt_status rt_command_finish(rt_command *command);

#endif
