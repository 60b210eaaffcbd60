/* The command line of farmrt. */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../system/arrival.h"
#include "../system/digest.h"
#include "../system/exit_status.h"
#include "../system/log.h"
#include "pocl_threads.h"
#include "serve.h"

static const char usage[] = "farmrt " RT_VERSION " (" RT_ABI
                            ")\n"
                            "usage: farmrt probe [opencl=LIBRARY]\n"
                            "       farmrt run plan=FILE data=FILE [key=value ...]\n"
                            "       farmrt serve\n"
                            "       farmrt sha256 FILE...\n"
                            "       farmrt arriving SIZE FILE [SIZE FILE ...]\n"
                            "--log=off|info|debug before the command, else FARMRT_LOG: what is told on standard error\n";

/* Prints the usage and returns `status`, or RT_EXIT_USAGE where it cannot be printed. */
static int usage_print(int descriptor, int status) {
    return write(descriptor, usage, sizeof usage - 1) < 0 ? RT_EXIT_USAGE : status;
}

/* The descriptor for answers, -1 where there is none: the real standard output. What drivers print to standard output
 * goes to standard error from now on. */
static int answers_open(void) {
    int answers = dup(STDOUT_FILENO);
    if (answers >= 0) dup2(STDERR_FILENO, STDOUT_FILENO);
    return answers;
}

/* Sets the log level from the environment, and from an option that comes first; false where the option's word is
 * none. An unknown word in the environment is passed over: it may be meant for another version. */
static bool log_open(int *count, char ***words) {
    static const char option[] = "--log=";
    const char *level = getenv("FARMRT_LOG");
    if (level != NULL) rt_log_set_word(level);
    if (*count < 2 || strncmp((*words)[1], option, sizeof option - 1) != 0) return true;
    level = (*words)[1] + sizeof option - 1;
    *count -= 1;
    *words += 1;
    return rt_log_set_word(level);
}

int main(int count, char **words) {
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is a failed write */
    if (!log_open(&count, &words)) return usage_print(STDERR_FILENO, RT_EXIT_USAGE);
    if (count < 2) return usage_print(STDERR_FILENO, RT_EXIT_USAGE);
    if (strcmp(words[1], "--help") == 0 || strcmp(words[1], "--version") == 0)
        return usage_print(STDOUT_FILENO, RT_EXIT_DONE);
    int answers = answers_open();
    if (answers < 0) return RT_EXIT_FAILED;
    rt_pocl_threads_place();
    if (strcmp(words[1], "serve") == 0 && count == 2) return rt_serve(answers);
    if (strcmp(words[1], "sha256") == 0) return rt_digest(answers, words + 2, count - 2);
    if (strcmp(words[1], "arriving") == 0) {
        int status = rt_arrival(answers, words + 2, count - 2);
        return status == RT_EXIT_USAGE ? usage_print(STDERR_FILENO, status) : status;
    }
    if (strcmp(words[1], "probe") == 0 || strcmp(words[1], "run") == 0)
        return rt_serve_once(answers, words + 1, count - 1);
    return usage_print(STDERR_FILENO, RT_EXIT_USAGE);
}
