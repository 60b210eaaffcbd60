/* The text is one piece of memory that doubles; a comma is needed wherever the last character is no opening bracket. */
#include "json.h"

#include <stdio.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"

struct rt_json {
    char *text; /* NUL-terminated once anything is written */
    size_t length, capacity;
    bool failed; /* no memory: the text is incomplete */
};

rt_json *rt_json_create(void) { return rt_memory_allocate(1, sizeof(rt_json)); }

void rt_json_destroy(rt_json *json) {
    if (json == NULL) return;
    rt_memory_free(json->text);
    rt_memory_free(json);
}

void rt_json_reset(rt_json *json) {
    json->length = 0;
    json->failed = false;
}

/* Appends bytes and a NUL; drops them, and all that follow, once there is no memory. */
static void append(rt_json *json, const char *text, size_t length) {
    if (json->failed) return;
    if (json->length + length + 1 > json->capacity) {
        /* Twice what is needed: a text of n bytes is copied about n bytes in all. */
        size_t capacity = (json->length + length + 1) * 2;
        char *grown = rt_memory_grow(json->text, capacity, 1);
        if (grown == NULL) {
            json->failed = true;
            return;
        }
        json->text = grown;
        json->capacity = capacity;
    }
    memcpy(json->text + json->length, text, length);
    json->length += length;
    json->text[json->length] = '\0';
}

/* The same for a string. */
static void append_text(rt_json *json, const char *text) { append(json, text, strlen(text)); }

/* Length of the UTF-8 sequence at `text`, 0 where there is none (overlong forms and surrogates included). */
static size_t sequence_length(const unsigned char *text) {
    static const struct {
        unsigned char first_low, first_high, second_low, second_high, length;
    } forms[] = {
        {0x20, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < RT_COUNT(forms); i++) {
        if (text[0] < forms[i].first_low || text[0] > forms[i].first_high) continue;
        if (forms[i].length > 1 && (text[1] < forms[i].second_low || text[1] > forms[i].second_high)) return 0;
        for (size_t k = 2; k < forms[i].length; k++) {
            if ((text[k] & 0xC0) != 0x80) return 0;
        }
        return forms[i].length;
    }
    return 0;
}

/* Appends a string literal: control characters escaped, and what is no UTF-8 replaced, byte by byte. */
static void append_quoted(rt_json *json, const char *value) {
    const unsigned char *text = (const unsigned char *)value;
    char escape[8];
    append_text(json, "\"");
    while (*text != '\0') {
        size_t length = sequence_length(text);
        if (*text == '"' || *text == '\\') {
            append_text(json, "\\");
            append(json, (const char *)text, 1);
        } else if (length > 0) {
            append(json, (const char *)text, length);
        } else if (*text < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", *text);
            append_text(json, escape);
        } else {
            append_text(json, "\\ufffd");
        }
        text += length ? length : 1;
    }
    append_text(json, "\"");
}

/* A comma if a value stands before, then the key. */
static void begin_value(rt_json *json, const char *key) {
    char last = json->length > 0 ? json->text[json->length - 1] : '[';
    if (last != '{' && last != '[') append_text(json, ", ");
    if (key == NULL) return;
    append_quoted(json, key);
    append_text(json, ": ");
}

void rt_json_object_begin(rt_json *json, const char *key) {
    begin_value(json, key);
    append_text(json, "{");
}

void rt_json_object_end(rt_json *json) { append_text(json, "}"); }

void rt_json_array_begin(rt_json *json, const char *key) {
    begin_value(json, key);
    append_text(json, "[");
}

void rt_json_array_end(rt_json *json) { append_text(json, "]"); }

void rt_json_string(rt_json *json, const char *key, const char *value) {
    begin_value(json, key);
    append_quoted(json, value);
}

void rt_json_integer(rt_json *json, const char *key, int64_t value) {
    char text[32];
    begin_value(json, key);
    snprintf(text, sizeof text, "%lld", (long long)value);
    append_text(json, text);
}

void rt_json_unsigned(rt_json *json, const char *key, uint64_t value) {
    char text[32];
    begin_value(json, key);
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    append_text(json, text);
}

void rt_json_bool(rt_json *json, const char *key, bool value) {
    begin_value(json, key);
    append_text(json, value ? "true" : "false");
}

void rt_json_null(rt_json *json, const char *key) {
    begin_value(json, key);
    append_text(json, "null");
}

void rt_json_ms(rt_json *json, const char *key, uint64_t ns) {
    char text[48];
    begin_value(json, key);
    snprintf(text, sizeof text, "%llu.%06llu", (unsigned long long)(ns / 1000000), (unsigned long long)(ns % 1000000));
    append_text(json, text);
}

void rt_json_float(rt_json *json, const char *key, double value) {
    char text[48];
    if (!(value - value == 0)) {
        rt_json_null(json, key);
        return;
    }
    begin_value(json, key);
    snprintf(text, sizeof text, "%.9g", value);
    char *comma = strchr(text, ','); /* an application may have set a locale */
    if (comma != NULL) *comma = '.';
    append_text(json, text);
}

const char *rt_json_line(rt_json *json, size_t *length) {
    append_text(json, "\n");
    *length = json->length;
    return json->failed ? NULL : json->text;
}
