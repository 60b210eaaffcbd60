/* The hashes of files that are still being written: the unit hashes while the link is busy. Without state between
 * calls. */
#ifndef RT_ARRIVAL_H
#define RT_ARRIVAL_H

/* `words` are pairs: a size in bytes, and the file that will have it. Hashes one after another as they grow, until a line
 * on standard input says that all are whole; then prints `file x HASH` (executable) or `file - HASH` for each on the
 * descriptor `answers`. Returns the exit status: RT_EXIT_USAGE for words that are no pairs; RT_EXIT_FAILED where the
 * input ends without the line, or, with a line on standard error, where a file cannot be read or has another size. */
int rt_arrival(int answers, char **words, int count);

#endif
