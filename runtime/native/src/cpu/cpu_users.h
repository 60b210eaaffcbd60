/* Users' CPU operators, from a library or a table of the program.
 *
 * State: an rt_cpu_users, with the library and a row for each operator. What a row's check lets pass lies within its
 * tensors as far as their sizes go; that the function keeps to them is its author's promise, as with any code.
 */
#ifndef RT_CPU_USERS_H
#define RT_CPU_USERS_H

#include <stddef.h>

#include "../../include/farmrt.h"
#include "cpu_operator.h"

typedef struct rt_cpu_users rt_cpu_users;

/* Opens what the options name, operators_path before operators, for rt_cpu_users_close; `*users` is NULL where they name
 * nothing, and where it fails. RT_IO where the library cannot be opened, RT_UNSUPPORTED where it is none or its table is
 * not what this farmrt takes, RT_NO_MEMORY. */
rt_status rt_cpu_users_open(rt_cpu_users **users, const rt_options *options, rt_error *error);

/* Closes the library; no call of its operators may be left. NULL is ignored. */
void rt_cpu_users_close(rt_cpu_users *users);

/* The operator of a name that need not end with a NUL; NULL where there is none, or `users` is NULL. */
const rt_cpu_operator *rt_cpu_users_find(const rt_cpu_users *users, const char *name, size_t length);

#endif
