/* How the threads of drivers for CPUs wait and where they run, in a process that is farmrt's alone: this is part of the
 * program, not of the library. */
#ifndef RT_DRIVER_THREADS_H
#define RT_DRIVER_THREADS_H

/* Gives each thread of PoCL and Intel's driver a core of its own, lets PoCL's look on before they sleep and Intel's take
 * equal shares, where all cores are this process's and its user says nothing of them. Before the driver is loaded, once. */
void rt_driver_threads_place(void);

#endif
