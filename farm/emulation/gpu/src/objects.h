/* What the library knows of OpenCL objects beside what the library behind it does: looked up by the object's address.
 *
 * Every function takes and gives up one lock, since programs are built beside measurements.
 */
#ifndef PLAYED_OBJECTS_H
#define PLAYED_OBJECTS_H

#include <stddef.h>

/* Keeps `size` zeroed bytes for an object, in place of what was kept; NULL without memory. */
void *played_object_add(const void *object, size_t size);

/* What is kept for an object; NULL where nothing is. */
void *played_object_find(const void *object);

/* Forgets an object and frees what was kept. */
void played_object_remove(const void *object);

#endif
