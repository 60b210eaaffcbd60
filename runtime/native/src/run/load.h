/* Loading a plan for a session: the command `load`, and the first part of the command line's `run`. Without state. */
#ifndef RT_LOAD_H
#define RT_LOAD_H

#include "../../include/farmrt.h"
#include "../serve/command.h"
#include "../serve/session.h"

/* Takes the command's values; texts lie in the command's line. Bad ones are the command's to tell. */
void rt_load_take(rt_options *options, rt_command *command);

/* Loads the plan into the session, and adds the members of its answer. Fails as rt_session_load does. */
rt_status rt_load_run(rt_session *session, const rt_options *options, rt_error *error);

#endif
