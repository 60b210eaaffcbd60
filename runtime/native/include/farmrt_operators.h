/* Users' CPU operators: the table that a library of them has, or a program that links them.
 *
 * `farm convert` makes such a library of the C functions that a deployment file's custom operators name. It is code:
 * load it only from where you would load a program. A plan names operators, never a library.
 */
#ifndef FARMRT_OPERATORS_H
#define FARMRT_OPERATORS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RT_OPERATOR_TABLE_VERSION 1
#define RT_OPERATOR_TABLE_SYMBOL "farm_operators"

/* The arguments of one call: each tensor's first element (NULL for one that is absent), the output last; the numbers. */
typedef struct {
    void *const *tensors;
    const int32_t *ints;
    const float *floats;
} rt_operator_arguments;

/* An operator. A value, of which all are constants.
 *
 * `tensors` has a digit for each tensor, the output last: the bytes of its elements. `run` computes the items from
 * `first` up to `end`, on any thread, several of them at the same time.
 */
typedef struct {
    const char *name;
    const char *tensors;
    uint32_t int_count, float_count;
    void (*run)(const rt_operator_arguments *arguments, int64_t first, int64_t end);
} rt_user_operator;

/* What the symbol `farm_operators` of a library is. */
typedef struct {
    uint32_t version, count;
    const rt_user_operator *const *operators;
} rt_operator_table;

#ifdef __cplusplus
}
#endif

#endif
