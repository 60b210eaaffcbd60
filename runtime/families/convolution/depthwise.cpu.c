/* depthwise: a convolution of each channel with its own weights, [taps][channels]. Pixels are divided among the
 * workers, each of which collects row pointers for a tile and lets its kernel compute all channels of it. */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_rows.h"
#include "../../native/src/cpu/cpu_tile.h"

enum {
    X = RT_DEPTHWISE_X,
    W = RT_DEPTHWISE_W,
    B = RT_DEPTHWISE_B,
    ZEROS = RT_DEPTHWISE_ZEROS,
    RESIDUAL = RT_DEPTHWISE_RESIDUAL,
    Y = RT_DEPTHWISE_Y
};
enum { PIXELS_PER_TURN = 64 };

/* What all turns share. */
typedef struct {
    rt_window window;
    rt_depthwise_tile tile; /* of any pixels */
    const rt_tile_kernels *kernels;
    rt_workers *workers;
    uint64_t pixels;
} job;

static const char *depthwise_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_depthwise_args d = rt_depthwise_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    uint64_t channels = (uint64_t)d.channels;
    uint64_t pixels = rt_product3(d.batch, d.out_h, d.out_w);
    uint64_t taps = rt_product((uint64_t)d.k_h, (uint64_t)d.k_w);
    if (pixels > UINT32_MAX || taps > UINT32_MAX) return "too many pixels";
    if (!rt_view_fits(&tensors[X], rt_product3(d.batch, d.in_h, d.in_w), channels)) return "the input exceeds its pool";
    if (!rt_flat_fits(&tensors[W], rt_product(taps, channels))) return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[B], channels)) return "the bias exceeds its pool";
    if (!rt_flat_fits(&tensors[ZEROS], channels)) return "the zeros exceed their pool";
    if (call->codes.residual && !rt_view_fits(&tensors[RESIDUAL], pixels, channels))
        return "the residual exceeds its pool";
    if (!rt_view_fits(&tensors[Y], pixels, channels)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(pixels, channels), taps);
    needs->scratch_bytes = rt_product(taps, RT_TILE_PIXELS * sizeof(float *));
    return NULL;
}

/* A turn: the tiles of PIXELS_PER_TURN pixels, or of what is left. The row pointers lie in the worker's memory. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const float **rows = rt_workers_scratch(all->workers, worker);
    rt_depthwise_tile tile = all->tile;
    uint64_t width = all->kernels->depthwise_pixels;
    uint64_t first = (uint64_t)turn * PIXELS_PER_TURN;
    uint64_t end = first + PIXELS_PER_TURN < all->pixels ? first + PIXELS_PER_TURN : all->pixels;
    tile.rows = rows;
    for (uint64_t pixel = first; pixel < end; pixel += width) {
        tile.first_pixel = pixel;
        tile.pixels = (uint32_t)(end - pixel < width ? end - pixel : width);
        rt_rows_fill(&all->window, pixel, tile.pixels, RT_TILE_PIXELS, rows);
        all->kernels->depthwise(&tile);
    }
}

/* Describes the tile that all turns start from, then divides the pixels. */
static void depthwise_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_depthwise_args d = rt_depthwise_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    rt_epilogue epilogue = {.bias = rt_floats(&tensors[B]),
                            .residual = call->codes.residual ? rt_floats(&tensors[RESIDUAL]) : NULL,
                            .residual_stride = tensors[RESIDUAL].stride,
                            .y = rt_floats(&tensors[Y]),
                            .y_stride = tensors[Y].stride,
                            .activation = call->codes.activation,
                            .a = d.act_a,
                            .b = d.act_b};
    job all = {
        .window = {rt_floats(&tensors[X]), rt_floats(&tensors[ZEROS]), tensors[X].stride, d.in_h, d.in_w, d.out_h, d.out_w, d.k_h,
                   d.k_w, d.stride_h, d.stride_w, d.pad_t, d.pad_l, d.dil_h, d.dil_w},
        .tile = {.taps = (uint32_t)d.k_h * (uint32_t)d.k_w,
                 .weights = rt_floats(&tensors[W]),
                 .channels = (uint64_t)d.channels,
                 .epilogue = &epilogue},
        .kernels = call->tiles,
        .workers = workers,
        .pixels = rt_product3(d.batch, d.out_h, d.out_w),
    };
    rt_workers_run(workers, (uint32_t)rt_ceil_div(all.pixels, PIXELS_PER_TURN), turn_run, &all);
}

const rt_cpu_operator rt_cpu_depthwise = {RT_DEPTHWISE_ROW, .check = depthwise_check, .run = depthwise_run};
