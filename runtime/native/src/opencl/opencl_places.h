/* Where phones, boards and desktops keep their OpenCL library. Without state: each visit looks anew. */
#ifndef RT_OPENCL_PLACES_H
#define RT_OPENCL_PLACES_H

#include <stdbool.h>

/* Is given one place: a path, or a name for the dynamic linker to find. Returns true to end the visit. */
typedef bool rt_place_visit(void *context, const char *path);

/* Visits every place, best first, whether anything is there or not, and the drivers that the folder of ICD files
 * (OCL_ICD_VENDORS, else /etc/OpenCL/vendors) names. Returns whether a visit ended it. */
bool rt_opencl_places_visit(rt_place_visit *visit, void *context);

/* The folders in words, for a message. */
extern const char rt_opencl_places_text[];

#endif
