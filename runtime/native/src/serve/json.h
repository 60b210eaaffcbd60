/* A JSON text that grows. Members are written in order; a NULL key writes an element of an array.
 *
 * State: an rt_json. Running out of memory is remembered, not returned: writers write on, and rt_json_line tells it.
 * What is begun must be ended by the writer; nothing checks that.
 */
#ifndef RT_JSON_H
#define RT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rt_json rt_json;

/* An empty text, for rt_json_destroy; NULL when there is no memory. */
rt_json *rt_json_create(void);

/* Releases it; NULL is ignored. */
void rt_json_destroy(rt_json *json);

/* Empties the text, and keeps its memory for the next. */
void rt_json_reset(rt_json *json);

/* The text with a newline behind it, and its length; NULL when any of it could not be written. Valid until the next
 * call, and the text is complete: it can only be reset. */
const char *rt_json_line(rt_json *json, size_t *length);

/* Begin and end an object or array, as a member of the open one or the whole text. */
void rt_json_object_begin(rt_json *json, const char *key);
void rt_json_object_end(rt_json *json);
void rt_json_array_begin(rt_json *json, const char *key);
void rt_json_array_end(rt_json *json);

/* A string; bytes that are no UTF-8 become U+FFFD. */
void rt_json_string(rt_json *json, const char *key, const char *value);

/* A whole number, a truth value, null. */
void rt_json_integer(rt_json *json, const char *key, int64_t value);
void rt_json_unsigned(rt_json *json, const char *key, uint64_t value);
void rt_json_bool(rt_json *json, const char *key, bool value);
void rt_json_null(rt_json *json, const char *key);

/* Milliseconds with their nanoseconds. */
void rt_json_ms(rt_json *json, const char *key, uint64_t ns);

/* Nine significant digits, which a float needs; infinities and NaN become null. */
void rt_json_float(rt_json *json, const char *key, double value);

#endif
