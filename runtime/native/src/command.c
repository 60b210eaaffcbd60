#include "command.h"

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
    if (command->pair_count == RT_MAX_PAIRS) return rt_error_set(error, RT_BAD_COMMAND, "too many words");
    for (uint32_t i = 0; i < command->pair_count; i++) {
        if (strcmp(command->pairs[i].key, word) != 0) continue;
        return rt_error_set(error, RT_BAD_COMMAND, "%s: '%s' is given twice", command->name, word);
    }
    command->pairs[command->pair_count++] = (rt_pair){.key = word, .value = equals + 1};
    return RT_OK;
}

rt_status rt_command_parse(rt_command *command, char *line, rt_error *error) {
    char *rest = NULL;
    *command = (rt_command){.error = error};
    command->name = strtok_r(line, " \t\r\n", &rest);
    if (command->name == NULL) return rt_error_set(error, RT_BAD_COMMAND, "an empty command");
    rt_status status = RT_OK;
    for (char *word; status == RT_OK && (word = strtok_r(NULL, " \t\r\n", &rest)) != NULL;) {
        status = pair_add(command, word, true, error);
    }
    return status;
}

rt_status rt_command_from_words(rt_command *command, char **words, int count, rt_error *error) {
    *command = (rt_command){.name = words[0], .error = error};
    rt_status status = RT_OK;
    for (int i = 1; i < count && status == RT_OK; i++) status = pair_add(command, words[i], false, error);
    return status;
}

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

rt_pair *rt_command_next(rt_command *command, const char *prefix) {
    for (uint32_t i = 0; i < command->pair_count; i++) {
        rt_pair *pair = &command->pairs[i];
        if (pair->taken || strncmp(pair->key, prefix, strlen(prefix)) != 0) continue;
        pair->taken = true;
        return pair;
    }
    return NULL;
}

rt_status rt_command_finish(rt_command *command) {
    for (uint32_t i = 0; i < command->pair_count; i++) {
        if (!command->pairs[i].taken) fail(command, command->pairs[i].key, "unknown key");
    }
    return command->status;
}
