/* The answer's text is kept from one command to the next, so that its memory is found at once. */
#include "session.h"

#include <stddef.h>
#include <unistd.h>

#include "../system/allocation.h"
#include "answer.h"
#include "../system/clock.h"
#include "../system/exit_status.h"
#include "../system/file.h"

static const uint64_t progress_interval_ns = 2000000000;

struct rt_session {
    int answers; /* descriptor */
    rt_engine *engine;
    rt_json *json;
    bool tells_progress;
    uint64_t heard_ns; /* when the client last heard of this command */
};

rt_session *rt_session_create(int answers) {
    rt_session *made = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return NULL;
    made->answers = answers;
    made->json = rt_json_create();
    if (made->json != NULL) return made;
    rt_session_destroy(made);
    return NULL;
}

void rt_session_destroy(rt_session *session) {
    if (session == NULL) return;
    rt_session_unload(session);
    rt_json_destroy(session->json);
    rt_memory_free(session);
}

rt_engine *rt_session_engine(const rt_session *session) { return session->engine; }

/* Answers in a text of its own, since the session's may be half written, and ends the process: OpenCL has no way to
 * stop a launch. Called from the watchdog's thread. */
static void hang_answer(void *user, const rt_error *error) {
    const rt_session *session = user;
    rt_json *json = rt_json_create();
    if (json != NULL) rt_answer_fail(json, error);
    rt_answer_send(session->answers, json);
    _exit(RT_EXIT_HUNG);
}

/* From the thread that runs the command, which writes nothing else meanwhile. */
static void progress_send(void *user) {
    static const char line[] = "progress\n";
    rt_session *session = user;
    uint64_t now_ns = rt_clock_ns();
    if (!session->tells_progress || now_ns - session->heard_ns < progress_interval_ns) return;
    session->heard_ns = now_ns;
    rt_descriptor_write(session->answers, line, sizeof line - 1);
}

void rt_session_tell_progress(rt_session *session) { session->tells_progress = true; }

rt_status rt_session_load(rt_session *session, const rt_options *options, rt_error *error) {
    rt_options own = *options;
    own.on_hang = hang_answer;
    own.on_hang_user = session;
    own.on_progress = progress_send;
    own.on_progress_user = session;
    rt_session_unload(session);
    return rt_engine_create(&own, &session->engine, error);
}

void rt_session_unload(rt_session *session) {
    rt_engine_destroy(session->engine);
    session->engine = NULL;
}

rt_json *rt_session_begin(rt_session *session) {
    session->heard_ns = rt_clock_ns();
    rt_answer_begin(session->json);
    return session->json;
}

rt_json *rt_session_json(const rt_session *session) { return session->json; }

bool rt_session_send(rt_session *session, rt_status status, const rt_error *error) {
    if (status != RT_OK) rt_answer_fail(session->json, error);
    return rt_answer_send(session->answers, session->json);
}
