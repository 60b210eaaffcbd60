// Pooling: y[p][c] = the greatest (POOL 0) or the mean (POOL 1) of the inputs under the window of p. The padding does
// not count, except in a mean with count_include_pad, which divides by all k_h*k_w taps.
// One work item computes VECTOR channels of a pixel: ids (channel / VECTOR, column, batch * row).
kernel void pool(global const storage *x, int x_offset, int x_stride, global storage *y, int y_offset, int y_stride,
                 int batch, int in_h, int in_w, int channels, int out_h, int out_w, int k_h, int k_w, int stride_h,
                 int stride_w, int pad_t, int pad_l, int dil_h, int dil_w, int count_include_pad)
{
    const int channel = get_global_id(0) * VECTOR, column = get_global_id(1), row = get_global_id(2);
    if (channel >= channels || column >= out_w || row >= batch * out_h)
        return;
    const int exist = channels - channel;
    const int top = row % out_h * stride_h - pad_t, left = column * stride_w - pad_l, image = row / out_h * in_h;

    floats result = POOL == 0 ? -INFINITY : 0.0f;
    int count = 0;
    for (int i = 0; i < k_h; i++) {
        for (int j = 0; j < k_w; j++) {
            const int in_row = top + i * dil_h, in_column = left + j * dil_w;
            if (in_row < 0 || in_row >= in_h || in_column < 0 || in_column >= in_w)
                continue;
            const floats pixel =
                load_some(x + x_offset + ((image + in_row) * in_w + in_column) * x_stride + channel, exist);
#if POOL == 0
            result = GREATER(pixel, result);
#else
            result += pixel;
#endif
            count++;
        }
    }
#if POOL == 1
    result /= (float)(count_include_pad ? k_h * k_w : count);
#endif
    store_some(result, y + y_offset + (row * out_w + column) * y_stride + channel, exist);
}
