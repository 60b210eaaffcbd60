/* What others ask of memory objects. */
#ifndef PLAYED_MEMORY_H
#define PLAYED_MEMORY_H

#include "played.h"

/* Whether a launch that is given this object fails. */
bool played_memory_fails(cl_mem object);

#endif
