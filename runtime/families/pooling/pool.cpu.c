/* pool: the greatest value under a window of NHWC views, or the mean of those within the image (or of all). A turn is a
 * line of output pixels of all images. The _check and _run functions keep the contract of rt_cpu_operator. */
#include <math.h>
#include <stddef.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/system/arithmetic.h"

/* Beside the views, the window; a window beyond the image is allowed, it only finds nothing. */
static const char *pool_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_pool_args d = rt_pool_args_of(call);
    const rt_image_sizes sizes = {d.batch, d.in_h, d.in_w, d.channels, d.out_h, d.out_w};
    const char *problem = rt_images_check(&sizes, &call->tensors[RT_POOL_X], &call->tensors[RT_POOL_Y]);
    if (problem != NULL) return problem;
    needs->work = rt_product(rt_product(rt_product3(d.batch, d.out_h, d.out_w), (uint64_t)d.channels),
                             rt_product((uint64_t)d.k_h, (uint64_t)d.k_w));
    return NULL;
}

/* Adds one pixel under the window to the result so far. */
static void pixel_combine(uint32_t code, const float *x, float *y, int32_t channels) {
    if (code == RT_POOLING_MAX) {
        for (int32_t c = 0; c < channels; c++) y[c] = rt_greater(x[c], y[c]);
    } else {
        for (int32_t c = 0; c < channels; c++) y[c] += x[c];
    }
}

/* One output pixel. A window wholly in the padding gives what an empty maximum or mean is. */
static void pool_pixel(const rt_cpu_call *call, const rt_pool_args *d, int64_t line, int64_t column) {
    const rt_cpu_tensor *x = &call->tensors[RT_POOL_X];
    float *y = rt_floats(&call->tensors[RT_POOL_Y]) + (line * d->out_w + column) * call->tensors[RT_POOL_Y].stride;
    int64_t top = line % d->out_h * d->stride_h - d->pad_t;
    int64_t left = column * d->stride_w - d->pad_l;
    int64_t image = line / d->out_h * d->in_h;
    int64_t count = 0;
    for (int32_t c = 0; c < d->channels; c++) y[c] = call->codes.pool == RT_POOLING_MAX ? -INFINITY : 0.0f;
    for (int64_t i = 0; i < d->k_h; i++) {
        int64_t row = top + i * d->dil_h;
        if (row < 0 || row >= d->in_h) continue;
        for (int64_t j = 0; j < d->k_w; j++) {
            int64_t at = left + j * d->dil_w;
            if (at < 0 || at >= d->in_w) continue;
            pixel_combine(call->codes.pool, rt_floats(x) + ((image + row) * d->in_w + at) * x->stride, y, d->channels);
            count++;
        }
    }
    if (call->codes.pool == RT_POOLING_MAX) return;
    float divisor = d->count_include_pad ? (float)d->k_h * (float)d->k_w : (float)count;
    for (int32_t c = 0; c < d->channels; c++) y[c] /= divisor;
}

static void pool_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    rt_pool_args d = rt_pool_args_of(call);
    (void)worker;
    for (int64_t column = 0; column < d.out_w; column++) pool_pixel(call, &d, turn, column);
}

static void pool_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_pool_args d = rt_pool_args_of(call);
    rt_workers_run(workers, (uint32_t)d.batch * (uint32_t)d.out_h, pool_turn, call);
}

const rt_cpu_operator rt_cpu_pool = {RT_POOL_ROW, .check = pool_check, .run = pool_run};
