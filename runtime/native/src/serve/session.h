/* A client's session: the loaded plan, and the answer that is being written.
 *
 * State: an rt_session, with both. One thread at a time; only the answer to a hang is sent from the watchdog's thread,
 * and ends the process.
 */
#ifndef RT_SESSION_H
#define RT_SESSION_H

#include <stdbool.h>

#include "../../include/farmrt.h"
#include "json.h"

typedef struct rt_session rt_session;

/* A session without a plan, which answers on a descriptor (not closed by it), for rt_session_destroy; NULL when there
 * is no memory. */
rt_session *rt_session_create(int answers);

/* Releases it and its plan; NULL is ignored. */
void rt_session_destroy(rt_session *session);

/* The loaded plan, NULL where there is none; it stays the session's. */
rt_engine *rt_session_engine(const rt_session *session);

/* Loads a plan in place of the one before, which is gone even where this fails. The options' on_hang and
 * on_progress are the session's own. Fails as rt_engine_create does. */
rt_status rt_session_load(rt_session *session, const rt_options *options, rt_error *error);

/* From now on lines `progress` go out between a command and its answer, as docs/farmrt.md says. */
void rt_session_tell_progress(rt_session *session);

/* Releases the loaded plan, if there is one. */
void rt_session_unload(rt_session *session);

/* Begins an answer: an open object, to which members are added. It stays the session's. */
rt_json *rt_session_begin(rt_session *session);

/* The answer that was begun. */
rt_json *rt_session_json(const rt_session *session);

/* Sends the answer, or the error in its place where the status is none of success; false when nobody reads any more. */
bool rt_session_send(rt_session *session, rt_status status, const rt_error *error);

#endif
