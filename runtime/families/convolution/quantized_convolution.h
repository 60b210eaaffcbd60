/* What the convolutions over blocked tensors of eight bits (cpu_quantized.h) share: quantized_conv2d, its first layer,
 * quantized_depthwise and integer_winograd, which have the same tensors. Padding is the zero point ZERO; BYTES says what of
 * output and residual lies in bytes, the rest lies in floats. `b` has the biases for sums over u, then those for sums over
 * u - 128; both have the zero point in them. FOUND: the steps of the input follow it, and `b` has biases, sums of weights
 * and, with OFFSETS, what the weights lack: they are w + offset. Without state. */
#ifndef RT_QUANTIZED_CONVOLUTION_H
#define RT_QUANTIZED_CONVOLUTION_H

#include "../../native/src/cpu/cpu_quantized.h"
#include "blocked_convolution.h"

/* Whether so many elements of bytes or floats lie within a tensor. */
bool rt_quantized_fits(const rt_cpu_tensor *tensor, uint64_t elements, bool is_bytes);

/* Compares all tensors with the elements that the sizes ask for. `x`, `y`, `weights`: elements; `channels`: lanes of the
 * output; `a`, `b`: of the activation. Returns the problem, or NULL. */
const char *rt_quantized_tensors_check(const rt_cpu_call *call, uint64_t x, uint64_t y, uint64_t weights, uint64_t channels,
                                       float a, float b);

/* What becomes of sums, at the tensors' begin; `lanes`: of the output, `x`: elements of the input. */
rt_quantized_end rt_quantized_end_of(const rt_cpu_call *call, int64_t lanes, uint64_t x, float a, float b,
                                     float residual_scale);

/* The same `lanes` channels and `elements` elements further. */
rt_quantized_end rt_quantized_end_move(rt_quantized_end end, int64_t lanes, int64_t elements);

/* quantized_conv2d where FIRST is 1 or 2; its sizes are in range. Both keep the contract of rt_cpu_operator. */
const char *rt_quantized_first_check(const rt_cpu_call *call, const rt_conv_dims *d, rt_cpu_needs *needs);
void rt_quantized_first_run(const rt_cpu_call *call, rt_workers *workers);

#endif
