/* scale_shift and lrn: along the channels of each pixel. Pixels are divided among the workers. The _check and _run
 * functions keep the contract of rt_cpu_operator. */
#include <stddef.h>

#include "../system/arithmetic.h"
#include "cpu_math.h"
#include "cpu_operator.h"

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

/* Calls `pixel` for every pixel, of which the first int is the number. */
static void pixels_run(const rt_cpu_call *call, rt_workers *workers, void (*pixel)(const rt_cpu_call *, int64_t)) {
    job all = {call, pixel, call->ints[0]};
    rt_workers_run(workers, (uint32_t)rt_ceil_div((uint64_t)all.pixels, PIXELS_PER_TURN), turn_run, &all);
}

/* The first channel of a pixel. */
static float *pixel_of(const rt_cpu_tensor *tensor, int64_t pixel) { return tensor->data + pixel * tensor->stride; }

/* --- scale_shift: y = activation(x * scale + shift), each by channel. ints pixels, channels; floats of the activation
 * --- */

enum { SCALE_X, SCALE_S, SCALE_T, SCALE_Y };

static const char *scale_shift_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    if (!rt_all_at_least(call->ints, 2, 1)) return "a size is out of range";
    uint64_t pixels = (uint64_t)call->ints[0], channels = (uint64_t)call->ints[1];
    if (!rt_view_fits(&call->tensors[SCALE_X], pixels, channels)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[SCALE_S], channels)) return "the scale exceeds its pool";
    if (!rt_flat_fits(&call->tensors[SCALE_T], channels)) return "the shift exceeds its pool";
    if (!rt_view_fits(&call->tensors[SCALE_Y], pixels, channels)) return "the output exceeds its pool";
    needs->work = rt_product(pixels, channels);
    return NULL;
}

/* One pixel. A clamp, as most activations are, has a loop without a choice in it. */
static void scale_shift_pixel(const rt_cpu_call *call, int64_t pixel) {
    const float *x = pixel_of(&call->tensors[SCALE_X], pixel);
    const float *s = call->tensors[SCALE_S].data, *t = call->tensors[SCALE_T].data;
    float *y = pixel_of(&call->tensors[SCALE_Y], pixel);
    float a = call->floats[0], b = call->floats[1];
    int32_t channels = call->ints[1];
    if (call->codes.activation == RT_ACTIVATION_CLAMP) {
        for (int32_t c = 0; c < channels; c++) y[c] = rt_clamp(x[c] * s[c] + t[c], a, b);
    } else {
        for (int32_t c = 0; c < channels; c++) y[c] = rt_activate(call->codes.activation, x[c] * s[c] + t[c], a, b);
    }
}

static void scale_shift_run(const rt_cpu_call *call, rt_workers *workers) {
    pixels_run(call, workers, scale_shift_pixel);
}

/* --- lrn: y = x / (bias + alpha / size * sum of squares over `size` channels around)^beta. ints pixels, channels,
 * size; floats alpha, beta, bias --- */

enum { LRN_X, LRN_Y };

static const char *lrn_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    if (!rt_all_at_least(call->ints, 3, 1)) return "a size is out of range";
    uint64_t pixels = (uint64_t)call->ints[0], channels = (uint64_t)call->ints[1], size = (uint64_t)call->ints[2];
    if (!rt_view_fits(&call->tensors[LRN_X], pixels, channels)) return "the input exceeds its pool";
    if (!rt_view_fits(&call->tensors[LRN_Y], pixels, channels)) return "the output exceeds its pool";
    needs->work = rt_product(rt_product(pixels, channels), size < channels ? size : channels);
    return NULL;
}

/* One pixel. The window ends at the first and the last channel; of an even size it has one channel more behind than
 * before. */
static void lrn_pixel(const rt_cpu_call *call, int64_t pixel) {
    const float *x = pixel_of(&call->tensors[LRN_X], pixel);
    float *y = pixel_of(&call->tensors[LRN_Y], pixel);
    int64_t channels = call->ints[1], size = call->ints[2];
    float scale = call->floats[0] / (float)size;
    for (int64_t c = 0; c < channels; c++) {
        int64_t first = c - (size - 1) / 2, last = c + size / 2;
        float sum = 0.0f;
        if (first < 0) first = 0;
        if (last > channels - 1) last = channels - 1;
        for (int64_t d = first; d <= last; d++) sum += x[d] * x[d];
        y[c] = x[c] * expf(-call->floats[1] * logf(call->floats[2] + scale * sum));
    }
}

static void lrn_run(const rt_cpu_call *call, rt_workers *workers) { pixels_run(call, workers, lrn_pixel); }

const rt_cpu_operator rt_cpu_scale_shift = {"scale_shift", "vwwv", 2, 2, scale_shift_check, scale_shift_run, NULL};
const rt_cpu_operator rt_cpu_lrn = {"lrn", "vv", 3, 3, lrn_check, lrn_run, NULL};
