/* scale_shift and lrn: along the channels of each pixel. Pixels are divided among the workers. The _check and _run
 * functions keep the contract of rt_cpu_operator. */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/cpu/cpu_tile.h"

enum { PIXELS_PER_TURN = 64 };

/* A share of the pixels. */
typedef struct {
    const rt_cpu_call *call;
    void (*pixel)(const rt_cpu_call *call, int64_t pixel);
    int64_t pixels;
} job;

/* A turn: PIXELS_PER_TURN pixels, or what is left of them. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    (void)worker;
    int64_t first = (int64_t)turn * PIXELS_PER_TURN;
    int64_t end = first + PIXELS_PER_TURN < all->pixels ? first + PIXELS_PER_TURN : all->pixels;
    for (int64_t pixel = first; pixel < end; pixel++) all->pixel(all->call, pixel);
}

/* Calls `pixel` for every pixel. */
static void pixels_run(const rt_cpu_call *call, rt_workers *workers, int64_t pixels,
                       void (*pixel)(const rt_cpu_call *, int64_t)) {
    job all = {call, pixel, pixels};
    rt_workers_run(workers, (uint32_t)rt_ceil_div((uint64_t)all.pixels, PIXELS_PER_TURN), turn_run, &all);
}

/* The first channel of a pixel. */
static float *pixel_of(const rt_cpu_tensor *tensor, int64_t pixel) { return rt_floats(tensor) + pixel * tensor->stride; }

/* --- scale_shift: y = activation(x * scale + shift), each by channel --- */

static const char *scale_shift_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_scale_shift_args d = rt_scale_shift_args_of(call);
    uint64_t pixels = (uint64_t)d.pixels, channels = (uint64_t)d.channels;
    if (!rt_view_fits(&call->tensors[RT_SCALE_SHIFT_X], pixels, channels)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[RT_SCALE_SHIFT_S], channels)) return "the scale exceeds its pool";
    if (!rt_flat_fits(&call->tensors[RT_SCALE_SHIFT_T], channels)) return "the shift exceeds its pool";
    if (!rt_view_fits(&call->tensors[RT_SCALE_SHIFT_Y], pixels, channels)) return "the output exceeds its pool";
    needs->work = rt_product(pixels, channels);
    return NULL;
}

/* One pixel. A clamp, as most activations are, has a loop without a choice in it. */
static void scale_shift_pixel(const rt_cpu_call *call, int64_t pixel) {
    const float *x = pixel_of(&call->tensors[RT_SCALE_SHIFT_X], pixel);
    const float *s = rt_floats(&call->tensors[RT_SCALE_SHIFT_S]), *t = rt_floats(&call->tensors[RT_SCALE_SHIFT_T]);
    float *y = pixel_of(&call->tensors[RT_SCALE_SHIFT_Y], pixel);
    rt_scale_shift_args d = rt_scale_shift_args_of(call);
    float a = d.act_a, b = d.act_b;
    int32_t channels = d.channels;
    if (call->codes.activation == RT_UNARY_CLAMP) {
        for (int32_t c = 0; c < channels; c++) y[c] = rt_unary_clamp(x[c] * s[c] + t[c], a, b);
    } else {
        for (int32_t c = 0; c < channels; c++) y[c] = x[c] * s[c] + t[c];
        call->tiles->apply(call->codes.activation, a, b, y, (uint64_t)channels);
    }
}

static void scale_shift_run(const rt_cpu_call *call, rt_workers *workers) {
    pixels_run(call, workers, rt_scale_shift_args_of(call).pixels, scale_shift_pixel);
}

/* --- lrn: y = x / (bias + alpha / size * sum of squares over `size` channels around)^beta --- */

static const char *lrn_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_lrn_args d = rt_lrn_args_of(call);
    uint64_t pixels = (uint64_t)d.pixels, channels = (uint64_t)d.channels, size = (uint64_t)d.size;
    if (!rt_view_fits(&call->tensors[RT_LRN_X], pixels, channels)) return "the input exceeds its pool";
    if (!rt_view_fits(&call->tensors[RT_LRN_Y], pixels, channels)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(pixels, channels), size < channels ? size : channels);
    return NULL;
}

/* One pixel. The window ends at the first and the last channel; of an even size it has one channel more behind than
 * before. */
static void lrn_pixel(const rt_cpu_call *call, int64_t pixel) {
    const float *x = pixel_of(&call->tensors[RT_LRN_X], pixel);
    float *y = pixel_of(&call->tensors[RT_LRN_Y], pixel);
    rt_lrn_args args = rt_lrn_args_of(call);
    int64_t channels = args.channels, size = args.size;
    float scale = args.alpha / (float)size;
    for (int64_t c = 0; c < channels; c++) {
        int64_t first = c - (size - 1) / 2, last = c + size / 2;
        float sum = 0.0f;
        if (first < 0) first = 0;
        if (last > channels - 1) last = channels - 1;
        for (int64_t d = first; d <= last; d++) sum += x[d] * x[d];
        y[c] = x[c] * expf(-args.beta * logf(args.bias + scale * sum));
    }
}

static void lrn_run(const rt_cpu_call *call, rt_workers *workers) {
    pixels_run(call, workers, rt_lrn_args_of(call).pixels, lrn_pixel);
}

const rt_cpu_operator rt_cpu_scale_shift = {RT_SCALE_SHIFT_ROW, .check = scale_shift_check, .run = scale_shift_run};
const rt_cpu_operator rt_cpu_lrn = {RT_LRN_ROW, .check = lrn_check, .run = lrn_run};
