/* The commands (docs/farmrt.md): each takes all its values before it does anything. Without state but the session's. */
#ifndef RT_COMMANDS_H
#define RT_COMMANDS_H

#include "../../include/farmrt.h"
#include "command.h"
#include "session.h"

/* Executes a command in a session: takes its values, and adds the members of its answer to the one that was begun. On
 * failure what it has added is void. */
typedef rt_status rt_command_handler(rt_session *session, rt_command *command, rt_error *error);

/* A command's name and handler. A value, of which all are constants. */
typedef struct {
    const char *name;
    rt_command_handler *handle;
} rt_command_entry;

/* The commands of `serve`, and those of the command line; each ended by an entry without a name. */
extern const rt_command_entry rt_serve_commands[];
extern const rt_command_entry rt_once_commands[];

#endif
