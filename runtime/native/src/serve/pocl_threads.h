/* How the threads of PoCL wait and where they run, in a process that is farmrt's alone: this is part of the program, not
 * of the library. */
#ifndef RT_POCL_THREADS_H
#define RT_POCL_THREADS_H

/* Gives each thread of PoCL a core of its own, and lets it look on before it sleeps, where all cores are this process's
 * and its user says nothing of PoCL's threads. Before the driver is loaded, once. */
void rt_pocl_threads_place(void);

#endif
