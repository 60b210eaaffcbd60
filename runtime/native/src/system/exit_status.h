/* How the program farmrt ends (docs/farmrt.md). */
#ifndef RT_EXIT_STATUS_H
#define RT_EXIT_STATUS_H

enum { RT_EXIT_DONE = 0, RT_EXIT_FAILED = 1, RT_EXIT_USAGE = 2, RT_EXIT_HUNG = 4 };

#endif
