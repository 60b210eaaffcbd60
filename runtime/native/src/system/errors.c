#include "errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rt_status rt_error_set(rt_error *error, rt_status status, const char *format, ...) {
    if (error == NULL) return status;
    memset(error, 0, sizeof *error);
    error->status = status;
    error->step = RT_NO_STEP;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

rt_status rt_error_no_memory(rt_error *error, const char *what) {
    return rt_error_set(error, RT_NO_MEMORY, "not enough memory for %s", what);
}

void rt_error_set_step(rt_error *error, uint32_t step) {
    if (error != NULL) error->step = (int32_t)step;
}
