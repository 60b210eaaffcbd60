// Pooling: y[p][c] = the greatest (POOL 0) or the mean (POOL 1) of the inputs under the window of p. The padding does
// not count, except in a mean with count_include_pad, which divides by all k_h*k_w taps.
// Of bytes: ZERO stands for 0, and the result is times `scale`, rounded to whole steps from act_a to act_b; by fixed point
// a mean is the sum times a multiplier, or where that is 0 over the number of inputs, halves away from zero.
// One work item computes VECTOR channels of a pixel: ids (channel / VECTOR, column, batch * row).

// The taps of a window that starts at `start` and lie in 0 .. size-1 are those from the first to before the end.
INLINED int first_tap(int start, int dilation) { return start >= 0 ? 0 : (dilation - 1 - start) / dilation; }

INLINED int end_tap(int start, int dilation, int taps, int size)
{
    return start + (taps - 1) * dilation < size ? taps : (size - start + dilation - 1) / dilation;
}

INLINED void pool_pixel(global const input_storage *x, int x_stride, global output_storage *y, int y_stride, int batch,
                        int in_h, int in_w, int channels, int out_h, int out_w, int k_h, int k_w, int stride_h,
                        int stride_w, int pad_t, int pad_l, int dil_h, int dil_w, int count_include_pad, int multiplier,
                        int shift, float scale, float act_a, float act_b)
{
    const int channel = get_global_id(0) * VECTOR, column = get_global_id(1), row = get_global_id(2);
    if (channel >= channels || column >= out_w || row >= batch * out_h)
        return;
    const int exist = channels - channel;
    const int top = row % out_h * stride_h - pad_t, left = column * stride_w - pad_l, image = row / out_h * in_h;

    // The taps that are not in the padding.
    const int first_i = first_tap(top, dil_h), end_i = end_tap(top, dil_h, k_h, in_h);
    const int first_j = first_tap(left, dil_w), end_j = end_tap(left, dil_w, k_w, in_w);
    x += ((image + top) * in_w + left) * x_stride + channel;

    floats result = POOL == POOLING_MAX ? -INFINITY : 0.0f;
    for (int i = first_i; i < end_i; i++) {
        for (int j = first_j; j < end_j; j++) {
            const floats pixel = load_inputs(x + (i * dil_h * in_w + j * dil_w) * x_stride, 1, exist);
#if POOL == POOLING_MAX
            result = pixel > result ? pixel : result;
#else
            result += pixel;
#endif
        }
    }
#if BYTES & 4 || POOL == POOLING_AVERAGE
    const int found = POOL == POOLING_MAX ? 1 : (end_i - first_i) * (end_j - first_j);
    const float divisor = POOL != POOLING_MAX && count_include_pad ? k_h * k_w : found;
#endif
#if BYTES & 4
    const float zeros = ZERO * found;
#if BYTES & 16 && POOL == POOLING_AVERAGE
    const ints sum = TO_INTS(result - zeros), sign = sum >> 31, mean = ((sum ^ sign) - sign + found / 2) / found;
    result = FROM_INTS((mean ^ sign) - sign);
    if (multiplier)
        result = FROM_INTS(fixed_product(sum, (ints)(multiplier), (ints)(shift)));
    result = clamp(result, act_a, act_b);
#else
    result = clamp((result - zeros) * (scale / divisor), act_a, act_b);
#endif
#elif POOL == POOLING_AVERAGE
    result /= divisor;
#endif
    store_result(result, y + (row * out_w + column) * y_stride + channel, 1, exist, act_a);
}

#if !BYTES
IN_VECTORS
kernel void pool(global const storage *x, int x_offset, int x_stride, global storage *y, int y_offset, int y_stride,
                 int batch, int in_h, int in_w, int channels, int out_h, int out_w, int k_h, int k_w, int stride_h,
                 int stride_w, int pad_t, int pad_l, int dil_h, int dil_w, int count_include_pad)
{
    pool_pixel(x + x_offset, x_stride, y + y_offset, y_stride, batch, in_h, in_w, channels, out_h, out_w, k_h, k_w,
               stride_h, stride_w, pad_t, pad_l, dil_h, dil_w, count_include_pad, 0, 0, 1, 0, 0);
}
#else
IN_VECTORS
kernel void pool_bytes(global const uchar *x, int x_offset, int x_stride, global uchar *y, int y_offset, int y_stride,
                       int batch, int in_h, int in_w, int channels, int out_h, int out_w, int k_h, int k_w,
                       int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w, int count_include_pad,
                       int multiplier, int shift, float scale, float act_a, float act_b)
{
    pool_pixel(x + x_offset, x_stride, y + y_offset, y_stride, batch, in_h, in_w, channels, out_h, out_w, k_h, k_w,
               stride_h, stride_w, pad_t, pad_l, dil_h, dil_w, count_include_pad, multiplier, shift, scale,
               act_a, act_b);
}
#endif
