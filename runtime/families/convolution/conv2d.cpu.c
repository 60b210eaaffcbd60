/* conv2d, conv1x1: products, which cpu_product.c divides and computes. Here each is described as one, and checked.
 *
 * Outputs are NHWC views; weights are packed (RT_CPU_BLOCK). The _check, _run and _packing functions keep the contract
 * of rt_cpu_operator.
 */
#include <stddef.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_product.h"
#include "../../native/src/system/arithmetic.h"

/* --- conv2d: groups of channels, padding, strides, dilation. `in_c` and `out_c` are those of one group; taps in the
 * padding read the zeros --- */

/* A row is an output channel of the group, with a column for each tap and input channel. */
static rt_cpu_packing conv2d_packing(const rt_cpu_call *call) {
    rt_conv2d_args d = rt_conv2d_args_of(call);
    return (rt_cpu_packing){(uint64_t)d.groups, (uint64_t)d.out_c, rt_product3(d.k_h, d.k_w, d.in_c)};
}

/* Compares each tensor with the elements that the sizes ask for; a product that overflows saturates, and so exceeds any
 * pool. */
static const char *conv2d_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv2d_args d = rt_conv2d_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    rt_cpu_packing packing = conv2d_packing(call);
    uint64_t taps = rt_product((uint64_t)d.k_h, (uint64_t)d.k_w);
    uint64_t inputs = rt_product((uint64_t)d.groups, (uint64_t)d.in_c);
    uint64_t outputs = rt_product((uint64_t)d.groups, (uint64_t)d.out_c);
    uint64_t pixels = rt_product3(d.batch, d.out_h, d.out_w);
    if (!rt_product_is_countable(packing.groups, pixels, packing.rows, taps)) return "too many pixels";
    if (!rt_view_fits(&tensors[RT_CONV2D_X], rt_product3(d.batch, d.in_h, d.in_w), inputs))
        return "the input exceeds its pool";
    if (!rt_packing_fits(call, &packing)) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[RT_CONV2D_B], outputs)) return "the bias exceeds its pool";
    if (!rt_flat_fits(&tensors[RT_CONV2D_ZEROS], (uint64_t)d.in_c)) return "the zeros exceed their pool";
    if (call->codes.residual && !rt_view_fits(&tensors[RT_CONV2D_RESIDUAL], pixels, outputs))
        return "the residual exceeds its pool";
    if (!rt_view_fits(&tensors[RT_CONV2D_Y], pixels, outputs)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(pixels, outputs), packing.cols);
    needs->scratch_bytes = rt_product_scratch_bytes(call, taps, (uint64_t)d.in_c);
    return NULL;
}

/* Each group is a product of its weights with the windows over its inputs. */
static void conv2d_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_conv2d_args d = rt_conv2d_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    rt_product_job job = {
        .tiles = call->tiles,
        .window = {rt_floats(&tensors[RT_CONV2D_X]), rt_floats(&tensors[RT_CONV2D_ZEROS]), tensors[RT_CONV2D_X].stride, d.in_h, d.in_w, d.out_h,
                   d.out_w, d.k_h, d.k_w, d.stride_h, d.stride_w, d.pad_t, d.pad_l, d.dil_h, d.dil_w},
        .taps = (uint64_t)d.k_h * (uint64_t)d.k_w,
        .depth = (uint64_t)d.in_c,
        .groups = (uint64_t)d.groups,
        .pixels = rt_product3(d.batch, d.out_h, d.out_w),
        .channels = (uint64_t)d.out_c,
        .group_inputs = d.in_c,
        .group_outputs = d.out_c,
        .epilogue = rt_product_epilogue(call, d.act_a, d.act_b, rt_floats(&tensors[RT_CONV2D_B]), &tensors[RT_CONV2D_RESIDUAL], &tensors[RT_CONV2D_Y]),
    };
    rt_product_pack(&job, call);
    job.group_weights = (int64_t)rt_ceil_div(job.channels, RT_CPU_BLOCK) * job.block_stride;
    rt_product_run(&job, workers);
}

/* --- conv1x1: one tap that stays on its pixel --- */

static rt_cpu_packing conv1x1_packing(const rt_cpu_call *call) {
    rt_conv1x1_args d = rt_conv1x1_args_of(call);
    return rt_rows_packing(d.in_c, d.out_c);
}

static const char *conv1x1_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const rt_cpu_tensor *tensors = call->tensors;
    rt_conv1x1_args d = rt_conv1x1_args_of(call);
    rt_cpu_packing packing = rt_rows_packing(d.in_c, d.out_c);
    uint64_t pixels = (uint64_t)d.pixels;
    if (!rt_product_is_countable(1, pixels, packing.rows, 1)) return "too many pixels";
    if (!rt_view_fits(&tensors[RT_CONV1X1_X], pixels, packing.cols)) return "the input exceeds its pool";
    if (!rt_packing_fits(call, &packing)) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[RT_CONV1X1_B], packing.rows)) return "the bias exceeds its pool";
    if (call->codes.residual && !rt_view_fits(&tensors[RT_CONV1X1_RESIDUAL], pixels, packing.rows)) {
        return "the residual exceeds its pool";
    }
    if (!rt_view_fits(&tensors[RT_CONV1X1_Y], pixels, packing.rows)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(pixels, packing.rows), packing.cols);
    needs->scratch_bytes = rt_product_scratch_bytes(call, 1, packing.cols);
    return NULL;
}

/* Every pixel is a window of one tap. */
static void conv1x1_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_conv1x1_args d = rt_conv1x1_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    rt_product_job job = {
        .tiles = call->tiles,
        .window = rt_window_of_pixels(rt_floats(&tensors[RT_CONV1X1_X]), tensors[RT_CONV1X1_X].stride, d.pixels),
        .taps = 1,
        .depth = (uint64_t)d.in_c,
        .groups = 1,
        .pixels = (uint64_t)d.pixels,
        .channels = (uint64_t)d.out_c,
        .epilogue = rt_product_epilogue(call, d.act_a, d.act_b, rt_floats(&tensors[RT_CONV1X1_B]), &tensors[RT_CONV1X1_RESIDUAL], &tensors[RT_CONV1X1_Y]),
    };
    rt_product_pack(&job, call);
    rt_product_run(&job, workers);
}

const rt_cpu_operator rt_cpu_conv2d = {
    RT_CONV2D_ROW, .check = conv2d_check, .run = conv2d_run, .packing = conv2d_packing, .narrow_weights = RT_READS_INTEGERS | RT_READS_HALVES};
const rt_cpu_operator rt_cpu_conv1x1 = {
    RT_CONV1X1_ROW, .check = conv1x1_check, .run = conv1x1_run, .packing = conv1x1_packing, .narrow_weights = RT_READS_INTEGERS | RT_READS_HALVES};
