// Convolution with any window, stride, padding, dilation and number of groups:
// y[p][o] = act(b[o] + sum over taps (i, j) and c of x[pixel under tap (i, j) of p][c] * w[o][i][j][c] (+ residual[p][o])).
// in_c and out_c are of one group. w [groups][ceil(out_c/BLOCK)][k_h][k_w][in_c][BLOCK], rows beyond out_c zero;
// b [groups*out_c]; zeros: at least in_c zeros, which stand for the pixels of the padding.
// One work item computes PIXELS output pixels x BLOCK channels: ids (pixel / PIXELS, channel / BLOCK, group).
kernel void conv2d(global const storage *x, int x_offset, int x_stride, global const storage *w, int w_offset,
                   global const storage *b, int b_offset, global const storage *zeros, int zeros_offset,
                   global const storage *residual, int residual_offset, int residual_stride, global storage *y,
                   int y_offset, int y_stride, int batch, int in_h, int in_w, int in_c, int out_h, int out_w, int out_c,
                   int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w, int groups,
                   float act_a, float act_b)
{
    const int first = get_global_id(0) * PIXELS, channel = get_global_id(1) * BLOCK, group = get_global_id(2);
    const int pixels = batch * out_h * out_w;
    if (first >= pixels || channel >= out_c || group >= groups)
        return;
    // Where each pixel's window starts: row, column, and the first pixel of its image.
    int top[PIXELS], left[PIXELS], image[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++) {
        const int out = min(first + p, pixels - 1), row = out / out_w;
        top[p] = row % out_h * stride_h - pad_t;
        left[p] = out % out_w * stride_w - pad_l;
        image[p] = row / out_h * in_h * in_w;
    }

    reals sum[PIXELS][VECTORS];
    start_tile(sum, b + b_offset + group * out_c + channel);
    const int blocks = (out_c + BLOCK - 1) / BLOCK, columns = k_h * k_w * in_c;
    global const storage *tap = w + w_offset + (group * blocks + channel / BLOCK) * columns * BLOCK;
    for (int i = 0; i < k_h; i++) {
        for (int j = 0; j < k_w; j++) {
            global const storage *pixel[PIXELS];
            UNROLLED for (int p = 0; p < PIXELS; p++) {
                const int in_row = top[p] + i * dil_h, in_column = left[p] + j * dil_w;
                const bool inside = in_row >= 0 && in_row < in_h && in_column >= 0 && in_column < in_w;
                const int index = x_offset + (image[p] + in_row * in_w + in_column) * x_stride + group * in_c;
                pixel[p] = inside ? x + index : zeros + zeros_offset;
            }
            multiply_add_tile(sum, pixel, tap, in_c);
            tap += in_c * BLOCK;
        }
    }

    const int out = group * out_c + channel;
    UNROLLED for (int p = 0; p < PIXELS; p++)
        if (first + p < pixels)
            write_row(sum[p], residual + residual_offset + (first + p) * residual_stride + out,
                      y + y_offset + (first + p) * y_stride + out, out_c - channel, act_a, act_b);
}
