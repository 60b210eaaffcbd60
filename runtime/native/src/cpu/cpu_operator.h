/* What a CPU operator is given, and how it is described: the ground of all cpu_*.c.
 *
 * Operators have no state. A call is made once, when the plan is loaded; then the operator has said what it needs and
 * that all it will touch lies within its tensors, so that running it can neither fail nor reach beyond them.
 */
#ifndef RT_CPU_OPERATOR_H
#define RT_CPU_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"
#include "workers.h"

/* A tensor argument: elements of one type from its offset on. A value. */
typedef struct {
    void *data;             /* while the step runs: its first element */
    uint64_t count;         /* elements from the offset to the pool's end */
    int64_t stride;         /* from pixel to pixel, for a view */
    uint64_t offset;        /* elements from the pool's start */
    uint64_t element_bytes; /* 0 for a type that is not known, which has no elements */
    uint32_t type;
    uint32_t pool;
    void *fixed; /* weights in another packing, used instead of the pool */
} rt_cpu_tensor;

/* The elements of a tensor of floats, while the step runs. */
static inline float *rt_floats(const rt_cpu_tensor *tensor) { return tensor->data; }

/* What an OpenCL kernel gets as build options; the kernel string has them as ` KEY=VALUE`, each below its bound
 * (RT_OPTIONS). A value. */
#define RT_FIELD(field, key, bound) uint32_t field;
typedef struct {
    RT_OPTIONS(RT_FIELD)
} rt_cpu_codes;
#undef RT_FIELD

/* What running a call takes. A value, which the operator's check fills. */
typedef struct {
    uint64_t work;          /* inner operations, UINT64_MAX where they overflow */
    uint64_t scratch_bytes; /* that each worker needs */
} rt_cpu_needs;

/* What went wrong in a run, for a person; NULL where nothing did. A value. */
typedef _Atomic(const char *) rt_cpu_fault;

typedef struct rt_cpu_operator rt_cpu_operator;
typedef struct rt_tile_kernels rt_tile_kernels;
typedef struct rt_cpu_call rt_cpu_call;

/* An operator with its arguments. Written by cpu_call.c alone. */
struct rt_cpu_call {
    const rt_cpu_operator *operator;
    const rt_tile_kernels *tiles; /* the innermost loops that it uses */
    rt_cpu_codes codes;
    rt_cpu_tensor tensors[RT_CPU_MAX_TENSORS];
    int32_t ints[RT_CPU_MAX_INTS];
    float floats[RT_CPU_MAX_FLOATS];
    rt_cpu_needs needs;
    rt_cpu_fault *fault; /* may be set by any worker */
};

/* Weights in memory: [groups][ceil(rows/RT_CPU_BLOCK)][cols][RT_CPU_BLOCK], zero-filled; they are the argument
 * RT_CPU_WEIGHTS. A value.
 *
 * Of WEIGHT_BITS 8 or 4 a block of rows is bytes: [ceil(cols/WEIGHT_GROUP)][RT_CPU_BLOCK] scales in float (of
 * WEIGHT_GROUP 0 once), then [cols][RT_CPU_BLOCK] integers, signed; of 4 bits columns 2i and 2i + 1 share a byte, the
 * first in its low half, with 8 added to each. Of RT_HALF_BITS they are halves, in place of floats. */
enum { RT_CPU_WEIGHTS = 1, RT_HALF_BITS = 16 };
typedef struct {
    uint64_t groups, rows, cols;
} rt_cpu_packing;

/* What `count` ints that follow each other may be, both ends included. A value. */
typedef struct {
    uint32_t count;
    int32_t least, most;
} rt_cpu_range;

/* An operator. A value, of which all are constants. What stands before `check` is generated (RT_..._ROW of
 * cpu_arguments.h, see runtime/plan/header.py).
 *
 * `tensors` has a letter for each tensor argument, the output last: v view (pool, offset, stride); f flat, w weights,
 * b bytes, t table of int32, e strided of the element type that the ints say, 1 2 4 8 any type of so many bytes (pool, offset). `ranges` cover all ints in order, which are within
 * them before anything else is called; NULL: any int is. `head`: ints of a strided operator before its loops. `check`
 * says what else is wrong with the arguments, or NULL when all that `run` will access lies within the tensors; it fills
 * the needs. `run` may set the fault where the values of the tensors make no sense. It divides its work among the
 * workers and waits for them. `packing`: of the weights, NULL where they are not packed; it is called before `check`.
 */
enum { RT_READS_INTEGERS = 1, RT_READS_HALVES = 2 };
struct rt_cpu_operator {
    const char *name;
    const char *tensors;
    uint32_t int_count, float_count, head;
    const rt_cpu_range *ranges;
    const char *(*check)(const rt_cpu_call *call, rt_cpu_needs *needs);
    void (*run)(const rt_cpu_call *call, rt_workers *workers);
    rt_cpu_packing (*packing)(const rt_cpu_call *call);
    uint32_t narrow_weights; /* which of them it reads: RT_READS_... */
};

/* --- what checks are made of (cpu_check.c); sizes may be as large as they like --- */

/* Whether all of these are at least `least`. */
bool rt_all_at_least(const int32_t *values, uint32_t count, int32_t least);

/* Product of three sizes, UINT64_MAX where it overflows; a negative size counts as a huge one. */
uint64_t rt_product3(int32_t a, int32_t b, int32_t c);

/* Whether `pixels` pixels of `channels` elements, `stride` apart, lie within a view. */
bool rt_view_fits(const rt_cpu_tensor *tensor, uint64_t pixels, uint64_t channels);

/* Images of so many channels before and behind an operator. A value. */
typedef struct {
    int32_t batch, in_h, in_w, channels, out_h, out_w;
} rt_image_sizes;

/* Whether views hold these images; outputs can be counted. Returns the problem, or NULL. */
const char *rt_images_check(const rt_image_sizes *d, const rt_cpu_tensor *x, const rt_cpu_tensor *y);

/* Whether so many elements lie within a tensor. */
bool rt_flat_fits(const rt_cpu_tensor *tensor, uint64_t elements);

/* Whether a call's packed weights of these sizes lie within their tensor. */
bool rt_packing_fits(const rt_cpu_call *call, const rt_cpu_packing *packing);

/* Scales of a row of narrow weights, and bytes of a block of rows; UINT64_MAX where they overflow. */
uint64_t rt_weight_scales(const rt_cpu_codes *codes, uint64_t cols);
uint64_t rt_weight_block_bytes(const rt_cpu_codes *codes, uint64_t cols);

/* Whether nested loops with these strides (negative ones too) stay within a tensor, on either side. Extents are at
 * least 1. */
bool rt_nest_fits(const rt_cpu_tensor *tensor, const int32_t *extents, const int32_t *strides, uint32_t rank);

#endif
