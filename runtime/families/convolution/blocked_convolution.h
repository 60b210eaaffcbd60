/* What the convolutions over blocked tensors share: blocked_conv2d, its first layer, and blocked_winograd. Without state. */
#ifndef RT_BLOCKED_CONVOLUTION_H
#define RT_BLOCKED_CONVOLUTION_H

#include "../../native/src/cpu/cpu_blocked.h"

/* The arguments of blocked_conv2d and blocked_winograd; in_c and out_c are those of one group. */
typedef rt_blocked_conv2d_args rt_conv_dims;

/* Their tensors. */
enum {
    RT_CONV_X = RT_BLOCKED_CONV2D_X,
    RT_CONV_W = RT_BLOCKED_CONV2D_W,
    RT_CONV_B = RT_BLOCKED_CONV2D_B,
    RT_CONV_RESIDUAL = RT_BLOCKED_CONV2D_RESIDUAL,
    RT_CONV_Y = RT_BLOCKED_CONV2D_Y
};

/* Compares weights, bias, residual and output of a convolution with the elements that its sizes ask for, which may be
 * anything; `depth`: products of an output. Fills the work. Returns the problem, or NULL. */
const char *rt_conv_tensors_check(const rt_cpu_call *call, const rt_conv_dims *d, uint64_t depth, rt_cpu_needs *needs);

/* A tile of a convolution's output blocks from `block` (of all groups) on, for all pixels of an image. `depth`: as
 * above. */
rt_blocked_tile rt_conv_tile(const rt_cpu_call *call, const rt_conv_dims *d, int64_t image, int64_t block, int64_t depth);

/* blocked_conv2d where FIRST is 1 (blocked_first.cpu.c); its sizes are in range. Both keep the contract of
 * rt_cpu_operator. */
const char *rt_blocked_first_check(const rt_cpu_call *call, rt_cpu_needs *needs);
void rt_blocked_first_run(const rt_cpu_call *call, rt_workers *workers);

#endif
