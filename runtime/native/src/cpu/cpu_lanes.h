/* Vectors for one instruction set and one block, RT_ISA and RT_BLOCK: the ground of cpu_lanes_*.c, which are compiled
 * once for each pair. Vectors are the compiler's (GCC and clang: vector_size). Without state. */
#ifndef RT_CPU_LANES_H
#define RT_CPU_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu_blocked.h"
#include "cpu_math.h"

#ifndef RT_BLOCK /* the header alone */
#define RT_ISA generic
#define RT_BLOCK 16
#endif

#define NAME_JOIN_(prefix, isa, block) prefix##isa##_##block
#define NAME_JOIN(prefix, isa, block) NAME_JOIN_(prefix, isa, block)
/* An exported name of this pair. */
#define NAME(prefix) NAME_JOIN(prefix, RT_ISA, RT_BLOCK)

/* Floats of a register. */
#if defined(__AVX512F__) && RT_BLOCK == 16
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

/* Registers of a block. */
enum { PARTS = RT_BLOCK / LANES };

#include "cpu_vector.h"

/* The bounds of an activation: those of a clamp, else none. */
INLINE lanes lower_bound(uint32_t activation, float a) {
    return (lanes){0} + (activation == RT_UNARY_CLAMP ? a : -INFINITY);
}

INLINE lanes upper_bound(uint32_t activation, float b) {
    return (lanes){0} + (activation == RT_UNARY_CLAMP ? b : INFINITY);
}

/* The members of rt_blocked_kernels. */
void NAME(rt_lanes_depthwise_)(const rt_blocked_rows *rows);
void NAME(rt_lanes_pool_)(const rt_blocked_rows *rows);
void NAME(rt_lanes_sum_)(const float *x, uint64_t pixels, float *sums);
void NAME(rt_lanes_squares_)(const float *x, uint64_t pixels, const float *mean, float *sums);
void NAME(rt_lanes_affine_)(const rt_blocked_affine *pixels);
void NAME(rt_lanes_winograd2_input_)(const rt_winograd_tile *tile);
void NAME(rt_lanes_winograd4_input_)(const rt_winograd_tile *tile);
void NAME(rt_lanes_winograd2_output_)(const rt_winograd_tile *tile);
void NAME(rt_lanes_winograd4_output_)(const rt_winograd_tile *tile);
void NAME(rt_lanes_integer_winograd_input_)(const struct rt_winograd_bytes *tile);
void NAME(rt_lanes_integer_winograd_product_)(const struct rt_winograd_product *tile);
void NAME(rt_lanes_integer_winograd_output_)(const struct rt_winograd_sums *tile);
void NAME(rt_lanes_quantized_depthwise_)(const struct rt_quantized_rows *rows);
void NAME(rt_lanes_quantized_pool_)(const struct rt_quantized_pool *pool);
void NAME(rt_lanes_quantized_pair_)(const struct rt_quantized_pair *pair);
void NAME(rt_lanes_quantized_normalize_)(const struct rt_quantized_norm *row);
int32_t NAME(rt_lanes_quantized_softmax_)(uint8_t *row, int64_t count, const float *exponentials, float per_weight,
                                          int32_t zero);
void NAME(rt_lanes_lookup_)(const uint8_t *x, const uint8_t *table, int64_t count, uint8_t *y);
void NAME(rt_lanes_dequantize_)(const uint8_t *x, float step, int32_t zero, int64_t count, float *y);
void NAME(rt_lanes_quantize_)(const float *x, float per_step, int32_t zero, int64_t count, uint8_t *y);
void NAME(rt_lanes_quantize_by_)(const float *x, float step, int32_t zero, int64_t count, uint8_t *y);
void NAME(rt_lanes_extend_)(const float *x, int64_t blocks, uint32_t count, float *range);
/* whatever the block */
#define rt_lanes_quads NAME_JOIN(rt_lanes_quads_, RT_ISA, LANES)
void rt_lanes_quads(const float *x, int64_t plane, int64_t channels, float per_step, int32_t zero, int64_t count, uint32_t *y);

#endif
