/* fully_connected, matmul: products, which cpu_product.c divides and computes. Here each is described as one, and checked.
 *
 * The weights of fully_connected are packed (RT_CPU_BLOCK), b of matmul is a tensor like any other. The _check, _run and
 * _packing functions keep the contract of rt_cpu_operator.
 */
#include <math.h>
#include <stddef.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_product.h"
#include "../../native/src/system/arithmetic.h"

/* --- fully_connected: rows for pixels --- */

/* Its tensors are flat, so their rows follow each other without a gap. */
static rt_cpu_tensor rows_view(const rt_cpu_tensor *flat, int32_t columns) {
    rt_cpu_tensor view = *flat;
    view.stride = columns;
    return view;
}

static rt_cpu_packing fully_connected_packing(const rt_cpu_call *call) {
    rt_fully_connected_args d = rt_fully_connected_args_of(call);
    return rt_rows_packing(d.in_c, d.out_c);
}

static const char *fully_connected_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const rt_cpu_tensor *tensors = call->tensors;
    rt_fully_connected_args d = rt_fully_connected_args_of(call);
    rt_cpu_packing packing = rt_rows_packing(d.in_c, d.out_c);
    uint64_t rows = (uint64_t)d.rows;
    rt_cpu_tensor x = rows_view(&tensors[RT_FULLY_CONNECTED_X], d.in_c), y = rows_view(&tensors[RT_FULLY_CONNECTED_Y], d.out_c);
    if (!rt_product_is_countable(1, rows, packing.rows, 1)) return "too many rows";
    if (!rt_view_fits(&x, rows, packing.cols)) return "the input exceeds its pool";
    if (!rt_packing_fits(call, &packing)) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[RT_FULLY_CONNECTED_B], packing.rows)) return "the bias exceeds its pool";
    rt_cpu_tensor residual = rows_view(&tensors[RT_FULLY_CONNECTED_RESIDUAL], d.out_c);
    if (call->codes.residual && !rt_view_fits(&residual, rows, packing.rows)) return "the residual exceeds its pool";
    if (!rt_view_fits(&y, rows, packing.rows)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(rows, packing.rows), packing.cols);
    needs->scratch_bytes = rt_product_scratch_bytes(call, 1, packing.cols);
    return NULL;
}

/* Every row of the input is a pixel whose channels are the columns. */
static void fully_connected_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_fully_connected_args d = rt_fully_connected_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    rt_cpu_tensor y = rows_view(&tensors[RT_FULLY_CONNECTED_Y], d.out_c);
    rt_cpu_tensor residual = rows_view(&tensors[RT_FULLY_CONNECTED_RESIDUAL], d.out_c);
    rt_product_job job = {
        .tiles = call->tiles,
        .window = rt_window_of_pixels(rt_floats(&tensors[RT_FULLY_CONNECTED_X]), d.in_c, d.rows),
        .taps = 1,
        .depth = (uint64_t)d.in_c,
        .groups = 1,
        .pixels = (uint64_t)d.rows,
        .channels = (uint64_t)d.out_c,
        .epilogue = rt_product_epilogue(call, d.act_a, d.act_b, rt_floats(&tensors[RT_FULLY_CONNECTED_B]), &residual, &y),
    };
    rt_product_pack(&job, call);
    rt_product_run(&job, workers);
}

/* --- matmul: products in three loops, with a stride for each loop and tensor --- */

enum { MATMUL_LOOPS = 5 };

/* The strides of each tensor: of the loops d, then of its rows and columns. */
typedef struct {
    int32_t a[MATMUL_LOOPS], b[MATMUL_LOOPS], y[MATMUL_LOOPS];
} matmul_strides;

static matmul_strides matmul_strides_of(const rt_matmul_args *d) {
    return (matmul_strides){.a = {d->as[0], d->as[1], d->as[2], d->am, d->ak},
                            .b = {d->bs[0], d->bs[1], d->bs[2], d->bk, d->bn},
                            .y = {d->ys[0], d->ys[1], d->ys[2], d->ym, d->yn}};
}

static const char *matmul_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_matmul_args d = rt_matmul_args_of(call);
    matmul_strides s = matmul_strides_of(&d);
    const rt_cpu_tensor *tensors = call->tensors;
    const int32_t a_extents[] = {d.d[0], d.d[1], d.d[2], d.m, d.k};
    const int32_t b_extents[] = {d.d[0], d.d[1], d.d[2], d.k, d.n};
    const int32_t y_extents[] = {d.d[0], d.d[1], d.d[2], d.m, d.n};
    if (!rt_product_is_countable(rt_product3(d.d[0], d.d[1], d.d[2]), (uint64_t)d.m, (uint64_t)d.n, 1)) {
        return "too many rows";
    }
    if (d.k > 1 && d.ak != 1) return "columns of a are no neighbours";
    if (d.n > 1 && d.yn != 1) return "columns of the output are no neighbours";
    if (!rt_nest_fits(&tensors[RT_MATMUL_A], a_extents, s.a, MATMUL_LOOPS)) return "a exceeds its pool";
    if (!rt_nest_fits(&tensors[RT_MATMUL_B], b_extents, s.b, MATMUL_LOOPS)) return "b exceeds its pool";
    if (!rt_nest_fits(&tensors[RT_MATMUL_Y], y_extents, s.y, MATMUL_LOOPS)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product3(d.d[0], d.d[1], d.d[2]), rt_product3(d.m, d.k, d.n));
    needs->scratch_bytes = rt_product_scratch_bytes(NULL, 1, (uint64_t)d.k);
    return NULL;
}

/* The products of the innermost loop. b is not packed: its columns may lie anywhere, and its last block may be
 * incomplete. */
static void matmul_stack_run(const rt_cpu_call *call, rt_workers *workers, const rt_matmul_args *d, int64_t i, int64_t j) {
    const rt_cpu_tensor *tensors = call->tensors;
    rt_product_job job = {
        .tiles = call->tiles,
        .window = rt_window_of_pixels(rt_floats(&tensors[RT_MATMUL_A]) + i * d->as[0] + j * d->as[1], d->am, d->m),
        .taps = 1,
        .depth = (uint64_t)d->k,
        .groups = (uint64_t)d->d[2],
        .pixels = (uint64_t)d->m,
        .channels = (uint64_t)d->n,
        .weights = rt_floats(&tensors[RT_MATMUL_B]) + i * d->bs[0] + j * d->bs[1],
        .weights_stride = d->bk,
        .block_stride = (int64_t)RT_CPU_BLOCK * d->bn,
        .column_stride = d->bn,
        .group_inputs = d->as[2],
        .group_weights = d->bs[2],
        .group_outputs = d->ys[2],
        .epilogue = {.y = rt_floats(&tensors[RT_MATMUL_Y]) + i * d->ys[0] + j * d->ys[1],
                     .y_stride = d->ym,
                     .a = -INFINITY,
                     .b = INFINITY},
    };
    rt_product_run(&job, workers);
}

static void matmul_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_matmul_args d = rt_matmul_args_of(call);
    for (int64_t i = 0; i < d.d[0]; i++) {
        for (int64_t j = 0; j < d.d[1]; j++) matmul_stack_run(call, workers, &d, i, j);
    }
}

const rt_cpu_operator rt_cpu_fully_connected = {RT_FULLY_CONNECTED_ROW,
                                                .check = fully_connected_check,
                                                .run = fully_connected_run,
                                                .packing = fully_connected_packing,
                                                .narrow_weights = RT_READS_INTEGERS | RT_READS_HALVES};
const rt_cpu_operator rt_cpu_matmul = {RT_MATMUL_ROW, .check = matmul_check, .run = matmul_run};
