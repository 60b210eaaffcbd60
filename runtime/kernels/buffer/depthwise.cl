// Depthwise convolution: y[p][c] = act(b[c] + sum over taps (i, j) of x[pixel under tap (i, j) of p][c] * w[i][j][c]
// (+ residual[p][c])).
// w [k_h][k_w][channels]; b [channels]. `zeros` is not used: a tap in the padding is skipped.
// One work item computes PIXELS neighbouring pixels of a row x VECTOR channels:
// ids (channel / VECTOR, column / PIXELS, batch * row).
kernel void depthwise(global const storage *x, int x_offset, int x_stride, global const storage *w, int w_offset,
                      global const storage *b, int b_offset, global const storage *zeros, int zeros_offset,
                      global const storage *residual, int residual_offset, int residual_stride, global storage *y,
                      int y_offset, int y_stride, int batch, int in_h, int in_w, int channels, int out_h, int out_w,
                      int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w,
                      float act_a, float act_b)
{
    const int channel = get_global_id(0) * VECTOR, first = get_global_id(1) * PIXELS, row = get_global_id(2);
    if (channel >= channels || first >= out_w || row >= batch * out_h)
        return;
    const int exist = channels - channel;
    const int top = row % out_h * stride_h - pad_t, image = row / out_h * in_h;
    x += x_offset + channel;
    w += w_offset + channel;

    floats sum[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++)
        sum[p] = LOAD_N(VECTOR, b + b_offset + channel);
    for (int i = 0; i < k_h; i++) {
        const int in_row = top + i * dil_h;
        if (in_row < 0 || in_row >= in_h)
            continue;
        for (int j = 0; j < k_w; j++) {
            const floats weight = LOAD_N(VECTOR, w + (i * k_w + j) * channels);
            UNROLLED for (int p = 0; p < PIXELS; p++) {
                const int column = (first + p) * stride_w - pad_l + j * dil_w;
                if (column >= 0 && column < in_w) {
                    const floats pixel = load_some(x + ((image + in_row) * in_w + column) * x_stride, exist);
                    sum[p] = MULTIPLY_ADD(pixel, weight, sum[p]);
                }
            }
        }
    }

    UNROLLED for (int p = 0; p < PIXELS; p++) {
        if (first + p < out_w) {
            const int out = row * out_w + first + p;
            floats v = sum[p];
#if RESIDUAL
            v += load_some(residual + residual_offset + out * residual_stride + channel, exist);
#endif
            store_some(ACTIVATE(v, act_a, act_b), y + y_offset + out * y_stride + channel, exist);
        }
    }
}
