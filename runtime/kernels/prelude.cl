// What every kernel may use. Macros take scalars and vectors alike and evaluate their arguments several times.

// Before a loop over a register tile: its arrays stay in registers only when no index is variable.
#define UNROLLED _Pragma("unroll")

// Of a function: the same holds for an array that it is given, which a call would need in memory.
#define INLINED __attribute__((always_inline))

// Multiply-add as the variant writes it (which form is fast belongs to the driver): FMA=0 a*b+c, 1 fma, 2 mad.
#if FMA == 1
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#elif FMA == 2
#define MULTIPLY_ADD(a, b, c) mad(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// In half arithmetic, how many products are added in half before their sum is added to a float; a multiple of four. Half
// keeps 11 bits: of what is added to a long sum, its last bits are lost (docs/results.md).
#ifndef RUN
#define RUN 16
#endif

// Comparisons are written so that a NaN stays a NaN.
#define GREATER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define LESS(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

#if defined(LANES) && LANES > 1
// The body of a function (type value, local type *shared): joins a value of each of the work items that share it,
// neighbours on axis 0, and gives all of them the result. Every work item of the work group must come there; `shared`
// has a place for each.
#define JOIN_LANES(type, join)                                                                                         \
    {                                                                                                                  \
        local type *own = shared + (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0);        \
        JOIN_SUBGROUPS(type, join)                                                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        own[get_local_id(0)] = value;                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        type result = own[0];                                                                                          \
        for (int i = 1; i < get_local_size(0); i++)                                                                    \
            result = join(result, own[i]);                                                                             \
        return result;                                                                                                 \
    }
#define SUM(a, b) ((a) + (b))

// SUBGROUPS: a work group of a single row joins in the hardware's waves first, which needs no barrier, and only what
// these have in local memory. The greatest of values and NaN may be a value.
#if SUBGROUPS
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#define SUBGROUP_SUM sub_group_reduce_add
#define SUBGROUP_GREATER sub_group_reduce_max
#define JOIN_SUBGROUPS(type, join)                                                                                     \
    if (get_local_size(1) * get_local_size(2) == 1) {                                                                  \
        type result = SUBGROUP_##join(value);                                                                          \
        if (get_num_sub_groups() == 1)                                                                                 \
            return result;                                                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        if (get_sub_group_local_id() == 0)                                                                             \
            own[get_sub_group_id()] = result;                                                                          \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        result = own[0];                                                                                               \
        for (int i = 1; i < get_num_sub_groups(); i++)                                                                 \
            result = join(result, own[i]);                                                                             \
        return result;                                                                                                 \
    }
#else
#define JOIN_SUBGROUPS(type, join)
#endif
#endif

// APPLY_BINARY(a, b): an element-wise function of two values.
#ifdef BINARY
#if BINARY == BINARY_ADD
#define APPLY_BINARY(a, b) ((a) + (b))
#elif BINARY == BINARY_SUB
#define APPLY_BINARY(a, b) ((a) - (b))
#elif BINARY == BINARY_MUL
#define APPLY_BINARY(a, b) ((a) * (b))
#elif BINARY == BINARY_DIV
#define APPLY_BINARY(a, b) ((a) / (b))
#elif BINARY == BINARY_MAX
#define APPLY_BINARY(a, b) GREATER(a, b)
#elif BINARY == BINARY_MIN
#define APPLY_BINARY(a, b) LESS(a, b)
#elif BINARY == BINARY_POW
#define APPLY_BINARY(a, b) pow(a, b)
#else
#define APPLY_BINARY(a, b) ((a) < 0.0f ? (a) * (b) : (a))
#endif
#endif
