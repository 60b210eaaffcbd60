/* Answers: one line of JSON each (docs/farmrt.md), an object with "ok" first. Without state. */
#ifndef RT_ANSWER_H
#define RT_ANSWER_H

#include <stdbool.h>

#include "../../include/farmrt.h"
#include "json.h"

/* Begins the answer of a success, in place of what the text held; its members follow. */
void rt_answer_begin(rt_json *json);

/* Writes the whole answer of a failure but its end, in place of what the text held. */
void rt_answer_fail(rt_json *json, const rt_error *error);

/* Ends the answer and sends it to a descriptor; false when nobody reads any more. Where there was no memory for it
 * (`json` may be NULL), an answer that says so is sent instead. */
bool rt_answer_send(int descriptor, rt_json *json);

#endif
