#include <stddef.h>

#include "../system/arithmetic.h"
#include "cpu_operator.h"

bool rt_all_at_least(const int32_t *values, uint32_t count, int32_t least) {
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] < least) return false;
    }
    return true;
}

uint64_t rt_product3(int32_t a, int32_t b, int32_t c) {
    return rt_product(rt_product((uint64_t)a, (uint64_t)b), (uint64_t)c);
}

bool rt_view_fits(const rt_cpu_tensor *tensor, uint64_t pixels, uint64_t channels) {
    if (pixels == 0 || channels == 0) return true;
    uint64_t last = rt_product(pixels - 1, (uint64_t)tensor->stride);
    return rt_sum(last, channels) <= tensor->count;
}

const char *rt_images_check(const rt_image_sizes *d, const rt_cpu_tensor *x, const rt_cpu_tensor *y) {
    uint64_t pixels = rt_product3(d->batch, d->out_h, d->out_w);
    if (pixels > UINT32_MAX) return "too many pixels";
    if (!rt_view_fits(x, rt_product3(d->batch, d->in_h, d->in_w), (uint64_t)d->channels))
        return "the input exceeds its pool";
    return rt_view_fits(y, pixels, (uint64_t)d->channels) ? NULL : "the output exceeds its pool";
}

bool rt_flat_fits(const rt_cpu_tensor *tensor, uint64_t elements) { return elements <= tensor->count; }

bool rt_packing_fits(const rt_cpu_call *call, const rt_cpu_packing *packing) {
    const rt_cpu_tensor *tensor = &call->tensors[RT_CPU_WEIGHTS];
    uint64_t blocks = rt_product(packing->groups, rt_ceil_div(packing->rows, RT_CPU_BLOCK));
    if (!call->codes.weight_bits) return rt_product(rt_product(blocks, RT_CPU_BLOCK), packing->cols) <= tensor->count;
    uint64_t bytes = rt_product(blocks, rt_weight_block_bytes(&call->codes, packing->cols));
    bool is_aligned = call->codes.weight_bits == RT_HALF_BITS || tensor->offset % sizeof(float) == 0; /* the scales */
    return is_aligned && bytes <= rt_product(tensor->count, tensor->element_bytes);
}

uint64_t rt_weight_scales(const rt_cpu_codes *codes, uint64_t cols) {
    if (codes->weight_bits == RT_HALF_BITS) return 0;
    return codes->weight_group ? rt_ceil_div(cols, codes->weight_group) : 1;
}

uint64_t rt_weight_block_bytes(const rt_cpu_codes *codes, uint64_t cols) {
    uint64_t columns = codes->weight_bits == 4 ? rt_ceil_div(cols, 2) : rt_product(cols, codes->weight_bits / 8);
    uint64_t row_bytes = rt_sum(rt_product(rt_weight_scales(codes, cols), sizeof(float)), columns);
    return rt_product(row_bytes, RT_CPU_BLOCK);
}

bool rt_nest_fits(const rt_cpu_tensor *tensor, const int32_t *extents, const int32_t *strides, uint32_t rank) {
    int64_t lowest = 0, highest = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t reach = ((int64_t)extents[i] - 1) * strides[i]; /* below 2^62 */
        int64_t *end = reach < 0 ? &lowest : &highest;
        if (__builtin_add_overflow(*end, reach, end)) return false;
    }
    if (lowest < 0 && (uint64_t) - (lowest + 1) >= tensor->offset) return false;
    return (uint64_t)highest < tensor->count;
}
