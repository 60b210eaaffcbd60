/* Where phones, boards and desktops keep their OpenCL library. */
#ifndef RT_OPENCL_PLACES_H
#define RT_OPENCL_PLACES_H

#include "base.h"

/* Returns true to end the visit. */
typedef bool rt_place_visit(void *context, const char *path);

/* Visits every place, best first: a path, or a name for the dynamic linker to find. */
bool rt_opencl_places_visit(rt_place_visit *visit, void *context);

/* The folders in words, for a message. */
extern const char rt_opencl_places_text[];

#endif
