// Convolution of one group whose input is row-major, [image][channel][row][column], as a user gives it:
// y[p][o] = act(b[o] + sum over c and taps (i, j) of x[channel c of the pixel under tap (i, j) of p] * w[o][c][i][j]
// (+ residual[p][o])).
// w [1][ceil(out_c/PACK)][in_c][k_h][k_w][PACK], rows beyond out_c zero; b [out_c]; zeros: at least k_w zeros, which
// stand for the pixels of the padding. One work item computes PIXELS output pixels x BLOCK channels: ids
// (pixel / PIXELS, channel / BLOCK) in ORDER.
kernel void conv2d_planes(global const storage *x, int x_offset, global const storage *w, int w_offset,
                          global const storage *b, int b_offset, global const storage *zeros, int zeros_offset,
                          global const storage *residual, int residual_offset, int residual_stride, global storage *y,
                          int y_offset, int y_stride, int batch, int in_h, int in_w, int in_c, int out_h, int out_w,
                          int out_c, int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h,
                          int dil_w, float act_a, float act_b)
{
    const int first = PIXEL_ID * PIXELS, channel = BLOCK_ID * BLOCK, pixels = batch * out_h * out_w;
    if (first >= pixels || channel >= out_c)
        return;
    // Of each pixel's window: row and column of the first tap, and where that lies in the first channel.
    int top[PIXELS], left[PIXELS], start[PIXELS];
    int column = first % out_w, row = first / out_w % out_h, image = first / out_w / out_h;
    bool padded = false;
    UNROLLED for (int p = 0; p < PIXELS; p++) {
        top[p] = row * stride_h - pad_t;
        left[p] = column * stride_w - pad_l;
        start[p] = x_offset + (image * in_c * in_h + top[p]) * in_w + left[p];
        padded = padded || top[p] < 0 || top[p] + (k_h - 1) * dil_h >= in_h;
        padded = padded || left[p] < 0 || left[p] + (k_w - 1) * dil_w >= in_w;
        // The next pixel; behind the last one, the last one again.
        const bool last = first + p >= pixels - 1, row_ends = column == out_w - 1, image_ends = row == out_h - 1;
        column = last ? column : row_ends ? 0 : column + 1;
        row = last || !row_ends ? row : image_ends ? 0 : row + 1;
        image = last || !row_ends || !image_ends ? image : image + 1;
    }
    const bool whole_rows = !padded && dil_w == 1;
    const int runs = whole_rows ? 1 : k_w, run = whole_rows ? k_w : 1;

    floats sum[PIXELS][VECTORS];
    start_tile(sum, b + b_offset + channel);
    global const storage *weights = packed(w + w_offset, channel, in_c * k_h * k_w);
    for (int c = 0; c < in_c; c++) {
        for (int i = 0; i < k_h; i++) {
            for (int j = 0; j < runs; j++) {
                const int tap = (c * in_h + i * dil_h) * in_w + j * dil_w;
                global const storage *pixel[PIXELS];
                UNROLLED for (int p = 0; p < PIXELS; p++)
                    pixel[p] = x + start[p] + tap;
                if (padded) {
                    UNROLLED for (int p = 0; p < PIXELS; p++) {
                        const uint in_row = top[p] + i * dil_h, in_column = left[p] + j * dil_w;
                        if (in_row >= (uint)in_h || in_column >= (uint)in_w)
                            pixel[p] = zeros + zeros_offset;
                    }
                }
                multiply_add_tile(sum, pixel, weights, run);
                weights += run * PACK;
            }
        }
    }

    write_tile(sum, residual + residual_offset + first * residual_stride + channel, residual_stride,
               y + y_offset + first * y_stride + channel, y_stride, pixels - first, out_c - channel, act_a, act_b);
}
