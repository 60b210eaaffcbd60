/* A client's session: the loaded plan, and the answer that is being written. */
#ifndef RT_SESSION_H
#define RT_SESSION_H

#include "command.h"
#include "engine.h"
#include "json.h"

typedef struct {
    int answers; /* descriptor */
    rt_engine *engine;
    rt_json json;
} rt_session;

/* Reads a command's values and adds the members of its answer to the open object. */
typedef rt_status rt_command_handler(rt_session *session, rt_command *command);

typedef struct {
    const char *name;
    rt_command_handler *handle;
} rt_command_entry;

/* The commands of `serve`, and those of the command line; each ended by an entry without a name. */
extern const rt_command_entry rt_serve_commands[];
extern const rt_command_entry rt_once_commands[];

/* Begins an answer, and ends the line and sends it; false when nobody reads any more. */
void rt_answer_begin(rt_json *json);
bool rt_answer_send(int descriptor, rt_json *json);
/* The members of a failure. */
void rt_answer_error(rt_json *json, const rt_error *error);

#endif
