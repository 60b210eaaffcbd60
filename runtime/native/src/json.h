/* A JSON text that grows. Members are written in order; a NULL key writes an element of an array. */
#ifndef RT_JSON_H
#define RT_JSON_H

#include "base.h"

typedef struct {
    char *text; /* NUL-terminated once anything is written */
    size_t length, capacity;
    bool failed; /* no memory: the text is incomplete */
} rt_json;

void rt_json_release(rt_json *json);
void rt_json_reset(rt_json *json);

void rt_json_object_begin(rt_json *json, const char *key);
void rt_json_object_end(rt_json *json);
void rt_json_array_begin(rt_json *json, const char *key);
void rt_json_array_end(rt_json *json);
/* Bytes that are no UTF-8 become U+FFFD. */
void rt_json_string(rt_json *json, const char *key, const char *value);
void rt_json_integer(rt_json *json, const char *key, int64_t value);
void rt_json_unsigned(rt_json *json, const char *key, uint64_t value);
void rt_json_bool(rt_json *json, const char *key, bool value);
void rt_json_null(rt_json *json, const char *key);
/* Milliseconds with their nanoseconds. */
void rt_json_ms(rt_json *json, const char *key, uint64_t ns);
/* Nine significant digits, which a float needs; infinities and NaN become null. */
void rt_json_float(rt_json *json, const char *key, double value);

#endif
