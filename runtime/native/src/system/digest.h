/* The hashes of files, as `sha256sum` prints them. Without state between calls. */
#ifndef RT_DIGEST_H
#define RT_DIGEST_H

/* Prints `HASH  NAME` for each file on the descriptor `answers`; returns the exit status: RT_EXIT_FAILED, and a line on
 * standard error for each, where files cannot be read. */
int rt_digest(int answers, char **names, int count);

#endif
