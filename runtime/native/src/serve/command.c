/* The line is split and decoded where it lies: keys, values and the name point into it. Keys are few, so they are
 * searched one by one. A value that is bad is noted and the fallback returned, so that a handler needs one test, at its
 * end.
 */
#include "command.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/errors.h"

enum { MAX_PAIRS = 64 };

/* A pair of the command; `taken` once a handler has asked for it. */
typedef struct {
    char *key, *value;
    bool taken;
} pair;

struct rt_command {
    char *name;
    pair pairs[MAX_PAIRS];
    uint32_t pair_count;
    rt_status status; /* of the values taken so far */
    rt_error *error;
};

/* Value of a hexadecimal digit, -1 for anything else. */
static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Replaces %XX in place; false for a bad one or a NUL. */
static bool decode(char *text) {
    char *out = text;
    for (; *text != '\0'; text++, out++) {
        *out = *text;
        if (*text != '%') continue;
        int high = hex_digit(text[1]);
        int low = high >= 0 ? hex_digit(text[2]) : -1;
        if (low < 0 || high * 16 + low == 0) return false;
        *out = (char)(high * 16 + low);
        text += 2;
    }
    *out = '\0';
    return true;
}

/* Adds the word `key=value`, splitting it in place; `encoded` words have %XX. */
static rt_status pair_add(rt_command *command, char *word, bool encoded, rt_error *error) {
    char *equals = strchr(word, '=');
    if (equals == NULL || equals == word) {
        return rt_error_set(error, RT_BAD_COMMAND, "%s: '%s' is not key=value", command->name, word);
    }
    *equals = '\0';
    if (encoded && (!decode(word) || !decode(equals + 1))) {
        return rt_error_set(error, RT_BAD_COMMAND, "%s: %s: a '%%' is not followed by two hexadecimal digits",
                            command->name, word);
    }
    if (command->pair_count == MAX_PAIRS) return rt_error_set(error, RT_BAD_COMMAND, "too many words");
    /* Of two values for a key one would be ignored: that is a mistake, and is told. */
    for (uint32_t i = 0; i < command->pair_count; i++) {
        if (strcmp(command->pairs[i].key, word) != 0) continue;
        return rt_error_set(error, RT_BAD_COMMAND, "%s: '%s' is given twice", command->name, word);
    }
    command->pairs[command->pair_count++] = (pair){.key = word, .value = equals + 1};
    return RT_OK;
}

/* Splits a line at its blanks into the name and the pairs, all of which point into it. RT_BAD_COMMAND for an empty line
 * and for the first word that is no pair. */
static rt_status line_split(rt_command *command, char *line, rt_error *error) {
    char *rest = NULL;
    rt_status status = RT_OK;
    command->name = strtok_r(line, " \t\r\n", &rest);
    if (command->name == NULL) return rt_error_set(error, RT_BAD_COMMAND, "an empty command");
    for (char *word; status == RT_OK && (word = strtok_r(NULL, " \t\r\n", &rest)) != NULL;) {
        status = pair_add(command, word, true, error);
    }
    return status;
}

/* Takes the words of a command line, which the shell has split and nothing has encoded. Fails as line_split does. */
static rt_status words_take(rt_command *command, char **words, int count, rt_error *error) {
    rt_status status = RT_OK;
    command->name = words[0];
    for (int i = 1; i < count && status == RT_OK; i++) status = pair_add(command, words[i], false, error);
    return status;
}

/* Hands out the command, or releases it where it is not whole. */
static rt_status made_or_released(rt_command **command, rt_status status) {
    if (status != RT_OK) {
        rt_command_destroy(*command);
        *command = NULL;
    }
    return status;
}

/* An empty command; NULL, and the error filled, when there is no memory. */
static rt_command *command_create(rt_error *error) {
    rt_command *made = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) {
        rt_error_no_memory(error, "the command");
        return NULL;
    }
    made->error = error;
    return made;
}

rt_status rt_command_from_line(rt_command **command, char *line, rt_error *error) {
    *command = command_create(error);
    return *command ? made_or_released(command, line_split(*command, line, error)) : RT_NO_MEMORY;
}

rt_status rt_command_from_words(rt_command **command, char **words, int count, rt_error *error) {
    *command = command_create(error);
    return *command ? made_or_released(command, words_take(*command, words, count, error)) : RT_NO_MEMORY;
}

void rt_command_destroy(rt_command *command) { rt_memory_free(command); }

const char *rt_command_name(const rt_command *command) { return command->name; }

/* Notes a bad value; of several the first is told. */
static void fail(rt_command *command, const char *key, const char *problem) {
    if (command->status != RT_OK) return;
    command->status = rt_error_set(command->error, RT_BAD_COMMAND, "%s: %s: %s", command->name, key, problem);
}

const char *rt_command_text(rt_command *command, const char *key) {
    for (uint32_t i = 0; i < command->pair_count; i++) {
        if (strcmp(command->pairs[i].key, key) != 0) continue;
        command->pairs[i].taken = true;
        return command->pairs[i].value;
    }
    return NULL;
}

const char *rt_command_required(rt_command *command, const char *key) {
    const char *value = rt_command_text(command, key);
    if (value != NULL && value[0] != '\0') return value;
    fail(command, key, "is needed");
    return "";
}

/* Reads decimal digits; false without any, or above `highest`. */
static bool number_read(const char **text, uint32_t highest, uint32_t *value) {
    uint64_t sum = 0;
    const char *start = *text;
    for (; **text >= '0' && **text <= '9' && sum <= highest; (*text)++) sum = sum * 10 + (uint64_t)(**text - '0');
    *value = (uint32_t)sum;
    return *text > start && sum <= highest;
}

uint32_t rt_command_number(rt_command *command, const char *key, uint32_t fallback, uint32_t highest) {
    const char *text = rt_command_text(command, key);
    uint32_t value;
    if (text == NULL) return fallback;
    if (number_read(&text, highest, &value) && *text == '\0') return value;
    fail(command, key, "is not a number in range");
    return fallback;
}

double rt_command_decimal(rt_command *command, const char *key, double fallback) {
    const char *text = rt_command_text(command, key);
    char *end;
    if (text == NULL) return fallback;
    double value = strtod(text, &end);
    if (end != text && *end == '\0' && value >= 0 && value < 1e9) return value;
    fail(command, key, "is not a number in range");
    return fallback;
}

uint32_t rt_command_numbers(rt_command *command, const char *key, uint32_t *values, uint32_t capacity) {
    const char *text = rt_command_text(command, key);
    uint32_t count = 0;
    if (text == NULL) return 0;
    while (count < capacity && number_read(&text, INT32_MAX, &values[count])) {
        count++;
        if (*text == '\0') return count;
        if (*text++ != ',') break;
    }
    fail(command, key, "is not a list of numbers");
    return 0;
}

uint32_t rt_command_choice(rt_command *command, const char *key, const char *const *words, uint32_t count) {
    const char *text = rt_command_text(command, key);
    for (uint32_t i = 0; text != NULL && i < count; i++) {
        if (strcmp(text, words[i]) == 0) return i;
    }
    if (text != NULL) fail(command, key, "is not one of the known words");
    return 0;
}

/* Whether a pair's key begins with a prefix. */
static bool has_prefix(const pair *one, const char *prefix) { return strncmp(one->key, prefix, strlen(prefix)) == 0; }

uint32_t rt_command_prefixed_count(rt_command *command, const char *prefix) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < command->pair_count; i++) {
        if (!has_prefix(&command->pairs[i], prefix)) continue;
        command->pairs[i].taken = true;
        count++;
    }
    return count;
}

rt_named_value rt_command_prefixed(const rt_command *command, const char *prefix, uint32_t index) {
    const pair *one = command->pairs;
    while (!has_prefix(one, prefix) || index-- > 0) one++;
    return (rt_named_value){one->key + strlen(prefix), one->value};
}

rt_status rt_command_finish(rt_command *command) {
    for (uint32_t i = 0; i < command->pair_count; i++) {
        if (!command->pairs[i].taken) fail(command, command->pairs[i].key, "unknown key");
    }
    return command->status;
}
