/* What convolutions over blocked tensors of eight bits compare with their sizes, and do with sums. */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "quantized_convolution.h"

enum {
    X = RT_QUANTIZED_CONV2D_X,
    W = RT_QUANTIZED_CONV2D_W,
    SCALES = RT_QUANTIZED_CONV2D_SCALES,
    B = RT_QUANTIZED_CONV2D_B,
    RESIDUAL = RT_QUANTIZED_CONV2D_RESIDUAL,
    Y = RT_QUANTIZED_CONV2D_Y
};
_Static_assert((int)RT_QUANTIZED_DEPTHWISE_Y == (int)Y && (int)RT_INTEGER_WINOGRAD_Y == (int)Y, "all have the same tensors");

bool rt_quantized_fits(const rt_cpu_tensor *tensor, uint64_t elements, bool is_bytes) {
    if (is_bytes) return rt_flat_fits(tensor, elements);
    return tensor->offset % sizeof(float) == 0 && rt_flat_fits(tensor, rt_product(elements, sizeof(float)));
}

const char *rt_quantized_tensors_check(const rt_cpu_call *call, uint64_t x, uint64_t y, uint64_t weights, uint64_t channels,
                                       float a, float b) {
    const rt_cpu_tensor *tensors = call->tensors;
    uint32_t bytes = call->codes.bytes;
    if (y / call->codes.block > UINT32_MAX) return "too many pixels";
    const bool is_found = bytes & RT_BYTES_FOUND;
    if (!rt_flat_fits(&tensors[X], rt_sum(x, is_found ? sizeof(rt_found_steps) : 0))) return "the input exceeds its pool";
    if (!rt_flat_fits(&tensors[W], weights)) return "the weights exceed their pool";
    bool is_fixed = bytes & RT_BYTES_FIXED;
    if (is_fixed && !(bytes & RT_BYTES_OUTPUT)) return "fixed point rounds to bytes";
    if (!rt_flat_fits(&tensors[SCALES], rt_product(is_fixed ? 4 : 1, channels))) return "the scales exceed their pool";
    if (is_found && is_fixed) return "found steps have no fixed point";
    if (!is_found && (bytes & RT_BYTES_OFFSETS)) return "its offsets need found steps";
    if (!rt_flat_fits(&tensors[B], rt_product(bytes & RT_BYTES_OFFSETS ? 3 : 2, channels))) return "the bias exceeds its pool";
    if (call->codes.residual && !rt_quantized_fits(&tensors[RESIDUAL], y, bytes & RT_BYTES_RESIDUAL))
        return "the residual exceeds its pool";
    if (!rt_quantized_fits(&tensors[Y], y, bytes & RT_BYTES_OUTPUT)) return "the output exceeds its pool";
    if ((bytes & RT_BYTES_OUTPUT) && !rt_are_byte_bounds(a, b)) return "its bounds are no bytes";
    return NULL;
}

rt_quantized_end rt_quantized_end_of(const rt_cpu_call *call, int64_t lanes, uint64_t x, float a, float b,
                                     float residual_scale) {
    rt_found_steps found = {1.0f, (int32_t)call->codes.zero};
    if (call->codes.bytes & RT_BYTES_FOUND) found = rt_found_steps_of(call->tensors[X].data, x);
    return (rt_quantized_end){
        .step = found.step,
        .zero = found.zero,
        .scales = rt_floats(&call->tensors[SCALES]),
        .shifts = lanes,
        .bias = rt_floats(&call->tensors[B]),
        .residual = call->codes.residual ? call->tensors[RESIDUAL].data : NULL,
        .residual_scale = residual_scale,
        .y = call->tensors[Y].data,
        .bytes = call->codes.bytes,
        .activation = call->codes.activation,
        .a = a,
        .b = b,
        .tiles = call->tiles,
    };
}

rt_quantized_end rt_quantized_end_move(rt_quantized_end end, int64_t lanes, int64_t elements) {
    int64_t y = end.bytes & RT_BYTES_OUTPUT ? 1 : sizeof(float), residual = end.bytes & RT_BYTES_RESIDUAL ? 1 : sizeof(float);
    end.scales += lanes;
    end.bias += lanes;
    end.y = (char *)end.y + elements * y;
    if (end.residual != NULL) end.residual = (const char *)end.residual + elements * residual;
    return end;
}
