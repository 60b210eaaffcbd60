/* The two ways in which the program is given commands (docs/farmrt.md). Without state between calls. */
#ifndef RT_SERVE_H
#define RT_SERVE_H

/* Answers commands from standard input on the descriptor `answers`, until `quit`, the end of input, or nobody reads
 * the answers any more; returns the exit status. */
int rt_serve(int answers);

/* Answers one command from the words of a command line: `probe` or `run`; returns the exit status. */
int rt_serve_once(int answers, char **words, int count);

#endif
