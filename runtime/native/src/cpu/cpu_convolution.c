/* conv2d, conv1x1, fully_connected, matmul: all are products, which cpu_product.c divides and computes. Here each is
 * described as one, and checked.
 *
 * Outputs are NHWC views; weights are packed (RT_CPU_BLOCK), but for matmul's, which are a tensor like any other. The
 * _check, _run and _packing functions keep the contract of rt_cpu_operator.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "cpu_product.h"

/* The ints of each operator, in the order of its arguments. */

typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w, stride_h, stride_w, pad_t, pad_l, dil_h, dil_w,
        groups;
} conv2d_dims;

typedef struct {
    int32_t pixels, in_c, out_c;
} conv1x1_dims;

typedef struct {
    int32_t rows, in_c, out_c;
} fully_connected_dims;

/* The strides are those of the loops d, then of rows and columns. */
typedef struct {
    int32_t d[3], m, k, n, a[5], b[5], y[5];
} matmul_dims;

#define INTS(dims) (sizeof(dims) / sizeof(int32_t))

/* The epilogue of calls whose last tensor is the output and whose floats are the activation's. */
static rt_epilogue call_epilogue(const rt_cpu_call *call, const float *bias, const rt_cpu_tensor *residual,
                                 const rt_cpu_tensor *y) {
    bool has_residual = residual != NULL && call->codes.residual;
    return (rt_epilogue){.bias = bias,
                         .residual = has_residual ? residual->data : NULL,
                         .residual_stride = has_residual ? residual->stride : 0,
                         .y = y->data,
                         .y_stride = y->stride,
                         .activation = call->codes.activation,
                         .a = call->floats[0],
                         .b = call->floats[1]};
}

/* Gives a job packed weights, whose blocks follow each other. Its taps and depth must be set before. */
static void packed_weights(rt_product_job *job, const rt_cpu_tensor *weights) {
    job->weights = weights->data;
    job->weights_stride = RT_CPU_BLOCK;
    job->block_stride = (int64_t)(job->taps * job->depth * RT_CPU_BLOCK);
    job->packed = true;
}

/* --- conv2d: groups of channels, padding, strides, dilation. `in_c` and `out_c` are those of one group; taps in the
 * padding read the zeros --- */

enum { CONV_X, CONV_W, CONV_B, CONV_ZEROS, CONV_RESIDUAL, CONV_Y };

static conv2d_dims conv2d_read(const rt_cpu_call *call) {
    conv2d_dims dims;
    memcpy(&dims, call->ints, sizeof dims);
    return dims;
}

/* A row is an output channel of the group, with a column for each tap and input channel. */
static rt_cpu_packing conv2d_packing(const rt_cpu_call *call) {
    conv2d_dims d = conv2d_read(call);
    return (rt_cpu_packing){(uint64_t)d.groups, (uint64_t)d.out_c, rt_product3(d.k_h, d.k_w, d.in_c)};
}

/* Compares each tensor with the elements that the sizes ask for; a product that overflows saturates, and so exceeds any
 * pool. */
static const char *conv2d_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    conv2d_dims d = conv2d_read(call);
    const rt_cpu_tensor *tensors = call->tensors;
    const int32_t extents[] = {d.batch, d.in_h, d.in_w,     d.in_c,     d.out_h, d.out_w, d.out_c,
                               d.k_h,   d.k_w,  d.stride_h, d.stride_w, d.dil_h, d.dil_w, d.groups};
    const int32_t pads[] = {d.pad_t, d.pad_l};
    if (!rt_all_at_least(extents, RT_COUNT(extents), 1) || !rt_all_at_least(pads, 2, 0))
        return "a size is out of range";
    rt_cpu_packing packing = conv2d_packing(call);
    uint64_t taps = rt_product((uint64_t)d.k_h, (uint64_t)d.k_w);
    uint64_t inputs = rt_product((uint64_t)d.groups, (uint64_t)d.in_c);
    uint64_t outputs = rt_product((uint64_t)d.groups, (uint64_t)d.out_c);
    uint64_t pixels = rt_product3(d.batch, d.out_h, d.out_w);
    if (!rt_product_is_countable(packing.groups, pixels, packing.rows, taps)) return "too many pixels";
    if (!rt_view_fits(&tensors[CONV_X], rt_product3(d.batch, d.in_h, d.in_w), inputs))
        return "the input exceeds its pool";
    if (!rt_packing_fits(&tensors[CONV_W], &packing)) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[CONV_B], outputs)) return "the bias exceeds its pool";
    if (!rt_flat_fits(&tensors[CONV_ZEROS], (uint64_t)d.in_c)) return "the zeros exceed their pool";
    if (call->codes.residual && !rt_view_fits(&tensors[CONV_RESIDUAL], pixels, outputs))
        return "the residual exceeds its pool";
    if (!rt_view_fits(&tensors[CONV_Y], pixels, outputs)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(pixels, outputs), packing.cols);
    needs->scratch_bytes = rt_product_scratch_bytes(taps, (uint64_t)d.in_c, true);
    return NULL;
}

/* Each group is a product of its weights with the windows over its inputs. */
static void conv2d_run(const rt_cpu_call *call, rt_workers *workers) {
    conv2d_dims d = conv2d_read(call);
    const rt_cpu_tensor *tensors = call->tensors;
    rt_product_job job = {
        .tiles = call->tiles,
        .window = {tensors[CONV_X].data, tensors[CONV_ZEROS].data, tensors[CONV_X].stride, d.in_h, d.in_w, d.out_h,
                   d.out_w, d.k_h, d.k_w, d.stride_h, d.stride_w, d.pad_t, d.pad_l, d.dil_h, d.dil_w},
        .taps = (uint64_t)d.k_h * (uint64_t)d.k_w,
        .depth = (uint64_t)d.in_c,
        .groups = (uint64_t)d.groups,
        .pixels = rt_product3(d.batch, d.out_h, d.out_w),
        .channels = (uint64_t)d.out_c,
        .group_inputs = d.in_c,
        .group_outputs = d.out_c,
        .epilogue = call_epilogue(call, tensors[CONV_B].data, &tensors[CONV_RESIDUAL], &tensors[CONV_Y]),
    };
    packed_weights(&job, &tensors[CONV_W]);
    job.group_weights = (int64_t)rt_ceil_div(job.channels, RT_CPU_BLOCK) * job.block_stride;
    rt_product_run(&job, workers);
}

/* --- conv1x1: one tap that stays on its pixel --- */

enum { POINT_X, POINT_W, POINT_B, POINT_RESIDUAL, POINT_Y };

/* Of conv1x1 and fully_connected: one group, whose columns and rows are the second and the third int. */
static rt_cpu_packing rows_packing(const rt_cpu_call *call) {
    return (rt_cpu_packing){1, (uint64_t)call->ints[2], (uint64_t)call->ints[1]};
}

static const char *conv1x1_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const rt_cpu_tensor *tensors = call->tensors;
    if (!rt_all_at_least(call->ints, INTS(conv1x1_dims), 1)) return "a size is out of range";
    rt_cpu_packing packing = rows_packing(call);
    uint64_t pixels = (uint64_t)call->ints[0];
    if (!rt_product_is_countable(1, pixels, packing.rows, 1)) return "too many pixels";
    if (!rt_view_fits(&tensors[POINT_X], pixels, packing.cols)) return "the input exceeds its pool";
    if (!rt_packing_fits(&tensors[POINT_W], &packing)) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[POINT_B], packing.rows)) return "the bias exceeds its pool";
    if (call->codes.residual && !rt_view_fits(&tensors[POINT_RESIDUAL], pixels, packing.rows)) {
        return "the residual exceeds its pool";
    }
    if (!rt_view_fits(&tensors[POINT_Y], pixels, packing.rows)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(pixels, packing.rows), packing.cols);
    needs->scratch_bytes = rt_product_scratch_bytes(1, packing.cols, true);
    return NULL;
}

/* Every pixel is a window of one tap. */
static void conv1x1_run(const rt_cpu_call *call, rt_workers *workers) {
    const rt_cpu_tensor *tensors = call->tensors;
    rt_product_job job = {
        .tiles = call->tiles,
        .window = rt_window_of_pixels(tensors[POINT_X].data, tensors[POINT_X].stride, call->ints[0]),
        .taps = 1,
        .depth = (uint64_t)call->ints[1],
        .groups = 1,
        .pixels = (uint64_t)call->ints[0],
        .channels = (uint64_t)call->ints[2],
        .epilogue = call_epilogue(call, tensors[POINT_B].data, &tensors[POINT_RESIDUAL], &tensors[POINT_Y]),
    };
    packed_weights(&job, &tensors[POINT_W]);
    rt_product_run(&job, workers);
}

/* --- fully_connected: rows for pixels --- */

enum { FC_X, FC_W, FC_B, FC_Y };

/* Its tensors are flat, so their rows follow each other without a gap. */
static rt_cpu_tensor rows_view(const rt_cpu_tensor *flat, int32_t columns) {
    rt_cpu_tensor view = *flat;
    view.stride = columns;
    return view;
}

static const char *fully_connected_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const rt_cpu_tensor *tensors = call->tensors;
    if (!rt_all_at_least(call->ints, INTS(fully_connected_dims), 1)) return "a size is out of range";
    rt_cpu_packing packing = rows_packing(call);
    uint64_t rows = (uint64_t)call->ints[0];
    rt_cpu_tensor x = rows_view(&tensors[FC_X], call->ints[1]), y = rows_view(&tensors[FC_Y], call->ints[2]);
    if (!rt_product_is_countable(1, rows, packing.rows, 1)) return "too many rows";
    if (!rt_view_fits(&x, rows, packing.cols)) return "the input exceeds its pool";
    if (!rt_packing_fits(&tensors[FC_W], &packing)) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[FC_B], packing.rows)) return "the bias exceeds its pool";
    if (!rt_view_fits(&y, rows, packing.rows)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(rows, packing.rows), packing.cols);
    needs->scratch_bytes = rt_product_scratch_bytes(1, packing.cols, true);
    return NULL;
}

/* Every row of the input is a pixel whose channels are the columns. */
static void fully_connected_run(const rt_cpu_call *call, rt_workers *workers) {
    const rt_cpu_tensor *tensors = call->tensors;
    rt_cpu_tensor y = rows_view(&tensors[FC_Y], call->ints[2]);
    rt_product_job job = {
        .tiles = call->tiles,
        .window = rt_window_of_pixels(tensors[FC_X].data, call->ints[1], call->ints[0]),
        .taps = 1,
        .depth = (uint64_t)call->ints[1],
        .groups = 1,
        .pixels = (uint64_t)call->ints[0],
        .channels = (uint64_t)call->ints[2],
        .epilogue = call_epilogue(call, tensors[FC_B].data, NULL, &y),
    };
    packed_weights(&job, &tensors[FC_W]);
    rt_product_run(&job, workers);
}

/* --- matmul: products in three loops, with a stride for each loop and tensor --- */

enum { MATMUL_A, MATMUL_B, MATMUL_Y, MATMUL_LOOPS = 5 };

static matmul_dims matmul_read(const rt_cpu_call *call) {
    matmul_dims dims;
    memcpy(&dims, call->ints, sizeof dims);
    return dims;
}

static const char *matmul_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    matmul_dims d = matmul_read(call);
    const rt_cpu_tensor *tensors = call->tensors;
    const int32_t a_extents[] = {d.d[0], d.d[1], d.d[2], d.m, d.k};
    const int32_t b_extents[] = {d.d[0], d.d[1], d.d[2], d.k, d.n};
    const int32_t y_extents[] = {d.d[0], d.d[1], d.d[2], d.m, d.n};
    if (!rt_all_at_least(call->ints, 6, 1) || !rt_all_at_least(call->ints + 6, 3 * MATMUL_LOOPS, 0)) return "a size is out of range";
    if (!rt_product_is_countable(rt_product3(d.d[0], d.d[1], d.d[2]), (uint64_t)d.m, (uint64_t)d.n, 1)) {
        return "too many rows";
    }
    if (d.k > 1 && d.a[4] != 1) return "columns of a are no neighbours";
    if (d.n > 1 && d.y[4] != 1) return "columns of the output are no neighbours";
    if (!rt_nest_fits(&tensors[MATMUL_A], a_extents, d.a, MATMUL_LOOPS)) return "a exceeds its pool";
    if (!rt_nest_fits(&tensors[MATMUL_B], b_extents, d.b, MATMUL_LOOPS)) return "b exceeds its pool";
    if (!rt_nest_fits(&tensors[MATMUL_Y], y_extents, d.y, MATMUL_LOOPS)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product3(d.d[0], d.d[1], d.d[2]), rt_product3(d.m, d.k, d.n));
    needs->scratch_bytes = rt_product_scratch_bytes(1, (uint64_t)d.k, false);
    return NULL;
}

/* The products of the innermost loop. b is not packed: its columns may lie anywhere, and its last block may be
 * incomplete. */
static void matmul_stack_run(const rt_cpu_call *call, rt_workers *workers, const matmul_dims *d, int64_t i, int64_t j) {
    const rt_cpu_tensor *tensors = call->tensors;
    rt_product_job job = {
        .tiles = call->tiles,
        .window = rt_window_of_pixels(tensors[MATMUL_A].data + i * d->a[0] + j * d->a[1], d->a[3], d->m),
        .taps = 1,
        .depth = (uint64_t)d->k,
        .groups = (uint64_t)d->d[2],
        .pixels = (uint64_t)d->m,
        .channels = (uint64_t)d->n,
        .weights = tensors[MATMUL_B].data + i * d->b[0] + j * d->b[1],
        .weights_stride = d->b[3],
        .block_stride = (int64_t)RT_CPU_BLOCK * d->b[4],
        .column_stride = d->b[4],
        .group_inputs = d->a[2],
        .group_weights = d->b[2],
        .group_outputs = d->y[2],
        .epilogue = {.y = tensors[MATMUL_Y].data + i * d->y[0] + j * d->y[1],
                     .y_stride = d->y[3],
                     .a = -INFINITY,
                     .b = INFINITY},
    };
    rt_product_run(&job, workers);
}

static void matmul_run(const rt_cpu_call *call, rt_workers *workers) {
    matmul_dims d = matmul_read(call);
    for (int64_t i = 0; i < d.d[0]; i++) {
        for (int64_t j = 0; j < d.d[1]; j++) matmul_stack_run(call, workers, &d, i, j);
    }
}

const rt_cpu_operator rt_cpu_conv2d = {
    "conv2d", "vwwwvv", INTS(conv2d_dims), 2, conv2d_check, conv2d_run, conv2d_packing};
const rt_cpu_operator rt_cpu_conv1x1 = {
    "conv1x1", "vwwvv", INTS(conv1x1_dims), 2, conv1x1_check, conv1x1_run, rows_packing};
const rt_cpu_operator rt_cpu_fully_connected = {
    "fully_connected", "fwwf", INTS(fully_connected_dims), 2, fully_connected_check, fully_connected_run, rows_packing};
const rt_cpu_operator rt_cpu_matmul = {"matmul", "fff", INTS(matmul_dims), 0, matmul_check, matmul_run, NULL};
