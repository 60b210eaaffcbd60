#include "blocked_convolution.h"

#include <math.h>
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"

uint64_t rt_conv_weights(const rt_cpu_call *call, const rt_conv_dims *d, uint64_t depth) {
    return rt_blocked_elements((uint64_t)d->groups, (uint64_t)d->out_c, depth, call->codes.block);
}

const char *rt_conv_tensors_check(const rt_cpu_call *call, const rt_conv_dims *d, uint64_t depth, uint64_t weights,
                                  rt_cpu_needs *needs) {
    const rt_cpu_tensor *tensors = call->tensors;
    uint32_t block = call->codes.block;
    uint64_t groups = (uint64_t)d->groups, outputs = (uint64_t)d->out_c;
    uint64_t pixels = rt_product((uint64_t)d->out_h, (uint64_t)d->out_w);
    uint64_t y = rt_blocked_elements(rt_product((uint64_t)d->batch, groups), outputs, pixels, block);
    if (y / block > UINT32_MAX || depth > INT32_MAX) return "too many pixels";
    if (!rt_flat_fits(&tensors[RT_CONV_W], weights)) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[RT_CONV_B], rt_blocked_elements(groups, outputs, 1, block)))
        return "the bias exceeds its pool";
    if (call->codes.residual && !rt_flat_fits(&tensors[RT_CONV_RESIDUAL], y)) return "the residual exceeds its pool";
    if (!rt_flat_fits(&tensors[RT_CONV_Y], y)) return "the output exceeds its pool";
    needs->work = rt_product(y, depth);
    return NULL;
}

rt_blocked_tile rt_conv_tile(const rt_cpu_call *call, const rt_conv_dims *d, int64_t image, int64_t block,
                             int64_t depth) {
    int64_t lanes = call->codes.block, y_plane = (int64_t)d->out_h * d->out_w * lanes;
    int64_t blocks = d->groups * (int64_t)rt_ceil_div((uint64_t)d->out_c, (uint64_t)lanes);
    int64_t plane = (image * blocks + block) * y_plane;
    const rt_cpu_tensor *w = &call->tensors[RT_CONV_W];
    bool in_half = call->codes.weight_bits == RT_HALF_BITS;
    return (rt_blocked_tile){
        .weights = in_half ? NULL : rt_floats(w) + block * depth * lanes,
        .halves = in_half ? (const uint16_t *)w->data + block * depth * lanes : NULL,
        .weights_stride = depth * lanes,
        .bias = rt_floats(&call->tensors[RT_CONV_B]) + block * lanes,
        .residual = call->codes.residual ? rt_floats(&call->tensors[RT_CONV_RESIDUAL]) + plane : NULL,
        .y = rt_floats(&call->tensors[RT_CONV_Y]) + plane,
        .y_plane = y_plane,
        .activation = call->codes.activation,
        .a = d->act_a,
        .b = d->act_b,
        .tiles = call->tiles,
    };
}

rt_blocked_tile rt_conv_without_function(rt_blocked_tile tile) {
    if (tile.activation != RT_UNARY_CLAMP) tile.activation = RT_UNARY_CLAMP, tile.a = -INFINITY, tile.b = INFINITY;
    return tile;
}

void rt_conv_apply(const rt_blocked_tile *whole, int64_t first_pixel, int64_t pixels, int64_t block) {
    for (int64_t b = 0; b < whole->blocks && whole->activation != RT_UNARY_CLAMP; b++) {
        float *y = whole->y + b * whole->y_plane + first_pixel * block;
        whole->tiles->apply(whole->activation, whole->a, whole->b, y, (uint64_t)(pixels * block));
    }
}
