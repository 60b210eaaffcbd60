/* The commands `run` and `serve` (docs/farmrt.md). */
#ifndef RT_SERVE_H
#define RT_SERVE_H

/* Exit statuses. */
enum { RT_EXIT_DONE = 0, RT_EXIT_FAILED = 1, RT_EXIT_USAGE = 2, RT_EXIT_HUNG = 4 };

/* Answers commands from standard input on the descriptor `answers`; returns the exit status. */
int rt_serve(int answers);
/* One command from the words of a command line: `probe` or `run`. */
int rt_serve_once(int answers, char **words, int count);

#endif
