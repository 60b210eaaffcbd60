/* Strided views of tensors of every element type: what the generic operators (runtime/semantics/generic.py) are made of.
 *
 * The ints of such an operator are its own (the head), then RT_LOOPS extents, then for each tensor its element
 * type and RT_LOOPS strides in elements. Arithmetic is done on pieces of a row, in double or in int64_t, whatever the
 * tensors hold. Without state.
 */
#ifndef RT_CPU_STRIDED_H
#define RT_CPU_STRIDED_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_arguments.h"

enum { RT_VIEW_INTS = RT_LOOPS + 1, RT_PIECE = 256 };

/* One tensor while its step runs. A value. */
typedef struct {
    void *base; /* its first element; strides may be negative */
    uint32_t type;
    const int32_t *strides;
} rt_strided;

/* Elements in the type that is computed in. A value. */
typedef union {
    double reals[RT_PIECE];
    int64_t wholes[RT_PIECE];
} rt_piece;

/* Whether an element type is a floating-point one. */
bool rt_element_is_real(uint32_t type);

/* The extents of a call, and a tensor of it. */
const int32_t *rt_strided_extents(const rt_cpu_call *call);
rt_strided rt_strided_tensor(const rt_cpu_call *call, uint32_t index);

/* The element type that the ints say of a tensor. */
static inline uint32_t rt_strided_type(const rt_cpu_call *call, uint32_t index) {
    return (uint32_t)call->ints[call->operator->head + RT_LOOPS + index * RT_VIEW_INTS];
}

/* What is wrong with the extents or with a view that leaves its pool; NULL where all of it lies inside. `loops` counts
 * the loops that the tensor takes part in, from the first on. */
const char *rt_strided_check(const rt_cpu_call *call, uint32_t index, uint32_t loops);

/* The same for a view with further loops of its own. */
const char *rt_strided_check_more(const rt_cpu_call *call, uint32_t index, const int32_t *extents,
                                  const int32_t *strides, uint32_t more);

/* Turns of the loops `first` to `last` - 1, UINT64_MAX where they overflow. */
uint64_t rt_strided_turns(const int32_t *extents, uint32_t first, uint32_t last);

/* The index of the first `loops` loops in their turn number `turn`. */
void rt_strided_index(const int32_t *extents, uint32_t loops, uint64_t turn, int64_t *index);

/* Element of a tensor at an index of the first `loops` loops. */
int64_t rt_strided_at(const rt_strided *tensor, const int64_t *index, uint32_t loops);

/* Loads `count` elements, `step` apart, from `at` on; an integer type is loaded as wholes, or converted to reals. */
void rt_strided_reals(const rt_strided *tensor, int64_t at, int64_t step, int64_t count, double *reals);
void rt_strided_wholes(const rt_strided *tensor, int64_t at, int64_t step, int64_t count, int64_t *wholes);

/* Stores them: reals are cut towards zero for an integer type, wholes wrap round. */
void rt_strided_put_reals(const rt_strided *tensor, int64_t at, int64_t step, int64_t count, const double *reals);
void rt_strided_put_wholes(const rt_strided *tensor, int64_t at, int64_t step, int64_t count, const int64_t *wholes,
                           bool is_unsigned);

/* The work on a row: the index of the outer loops, and the first of `count` elements of the last one. */
typedef void rt_row(const rt_cpu_call *call, const int64_t *index, int64_t start, int64_t count, uint32_t worker);

/* Calls `row` for each row of the first `loops` loops, of which the last is cut into pieces of at most `piece`; divided
 * among the workers, or in order where `workers` is NULL. */
void rt_strided_run(const rt_cpu_call *call, rt_workers *workers, uint32_t loops, int64_t piece,
                    rt_row *row);

#endif
