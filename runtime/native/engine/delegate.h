/* A delegate of TensorFlow Lite out of a vendor's library, and how many nodes it takes.
 *
 * State: the one delegate of the process, and its counts.
 */
#ifndef RT_DELEGATE_H
#define RT_DELEGATE_H

#include "engine.h"

/* Makes the delegate of a library (tflite_plugin_create_delegate) with the options `delegate.NAME` of a request, for
 * the process's life; RT_UNSUPPORTED where it refuses. */
rt_status rt_delegate_open(const rt_request *request, const char *path, void **delegate, rt_error *error);

/* Writes how many nodes it took, and how many it left, as members of the open object; nothing where it is not known. */
void rt_delegate_nodes_write(rt_json *json);

#endif
