// What every kernel may use. Macros take scalars and vectors alike and evaluate their arguments several times.

// Before a loop over a register tile: its arrays stay in registers only when no index is variable.
#define UNROLLED _Pragma("unroll")

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
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        own[get_local_id(0)] = value;                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        type result = own[0];                                                                                          \
        for (int i = 1; i < get_local_size(0); i++)                                                                    \
            result = join(result, own[i]);                                                                             \
        return result;                                                                                                 \
    }
#define SUM(a, b) ((a) + (b))
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
