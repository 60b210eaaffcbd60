// Convolution with any window, stride, padding, dilation and number of groups:
// y[p][o] = act(b[o] + sum over taps (i, j) and c of x[pixel under tap (i, j) of p][c] * w[o][i][j][c] (+ residual[p][o])).
// in_c and out_c are of one group. w [groups][ceil(out_c/PACK)][k_h][k_w][in_c][PACK], or words (prelude.cl), rows beyond
// out_c zero;
// b [groups*out_c]; zeros: at least in_c zeros, which stand for the pixels of the padding.
// One work item computes PIXELS output pixels x BLOCK channels: ids (pixel / PIXELS, channel / BLOCK, group),
// the first two in ORDER.
kernel void conv2d(global const input_storage *x, int x_offset, int x_stride, global const packed_weights *w, int w_offset,
                   global const bias_storage *b, int b_offset, global const input_storage *zeros, int zeros_offset,
                   global const storage *residual, int residual_offset, int residual_stride, global output_storage *y,
                   int y_offset, int y_stride, int batch, int in_h, int in_w, int in_c, int out_h, int out_w, int out_c,
                   int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w, int groups,
                   float act_a, float act_b)
{
    const int first = PIXEL_ID * PIXELS, channel = BLOCK_ID * BLOCK, group = get_global_id(2);
    const int pixels = batch * out_h * out_w;
    if (first >= pixels || channel >= out_c || group >= groups)
        return;
    const int2 in = (int2)(in_w, in_h), reach = (int2)((k_w - 1) * dil_w, (k_h - 1) * dil_h);
    int top[PIXELS], left[PIXELS], image[PIXELS], start[PIXELS];
    const bool padded = place_windows(top, left, image, first, pixels, (int2)(out_w, out_h), in, reach,
                                      (int2)(stride_w, stride_h), (int2)(pad_l, pad_t));
    UNROLLED for (int p = 0; p < PIXELS; p++)
        start[p] = x_offset + ((image[p] * in_h + top[p]) * in_w + left[p]) * x_stride + group * in_c;
    // A row of a window whose pixels are neighbours in memory is one run of elements, and so are its weights.
    const bool whole_rows = !padded && dil_w == 1 && x_stride == in_c;
    const int runs = whole_rows ? 1 : k_w, run = whole_rows ? k_w * in_c : in_c;

    sums sum[PIXELS][VECTORS];
    floats result[PIXELS][VECTORS];
    start_tile(sum, b + b_offset + group * out_c + channel);
    const int columns = k_h * k_w * in_c, group_weights = (out_c + PACK - 1) / PACK * PACK * ROW_WORDS(columns);
    global const packed_weights *row = packed(w + w_offset + group * group_weights, channel, columns), *weights = row;
    for (int i = 0; i < k_h; i++) {
        for (int j = 0; j < runs; j++) {
            const int tap = (i * dil_h * in_w + j * dil_w) * x_stride;
            global const input_storage *pixel[PIXELS];
            find_pixels(pixel, x + tap, start, padded, top, left, i * dil_h, j * dil_w, in,
                        zeros + zeros_offset);
            multiply_add_tile(sum, pixel, weights, run);
            weights += WORDS(run) * PACK;
        }
    }
    end_tile(result, sum, row, b + b_offset + group * out_c + channel, groups * out_c);

    const int out = group * out_c + channel;
    write_tile(result, residual + residual_offset + first * residual_stride + out, residual_stride,
               y + y_offset + first * y_stride + out, y_stride, pixels - first, out_c - channel, act_a, act_b);
}
