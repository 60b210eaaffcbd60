// Convolution of one group whose input is row-major, [image][channel][row][column], as a user gives it:
// y[p][o] = act(b[o] + sum over c and taps (i, j) of x[channel c of the pixel under tap (i, j) of p] * w[o][c][i][j]
// (+ residual[p][o])).
// w [1][ceil(out_c/PACK)][in_c][k_h][k_w][PACK], rows beyond out_c zero; b [out_c]; zeros: at least one, which
// stands for the pixels of the padding. One work item computes PIXELS output pixels x BLOCK channels: ids
// (pixel / PIXELS, channel / BLOCK) in ORDER.
// STRIDE: stride_w, where it is known: a tile whose pixels are of one row then has one address, and skips what lies in the
// padding. Not in half arithmetic, whose sums are added in runs.

#define ROWS_AT_ONCE (STRIDE && PRECISION != 2)
#if ROWS_AT_ONCE
// sum += the products of all taps of a tile in one row. x: the image; top, left: the first tap of its first pixel; `inside`:
// no tap lies left or right of the image.
INLINED void add_row(floats sum[PIXELS][VECTORS], global const storage *x, global const storage *w, int in_c, int2 in,
                     int k_h, int k_w, int top, int left, int dil_h, int dil_w, const bool inside)
{
    for (int c = 0; c < in_c; c++) {
        for (int i = 0; i < k_h; i++, w += k_w * PACK) {
            const int row = top + i * dil_h;
            if ((uint)row >= (uint)in.y)
                continue;
            global const storage *first = x + (c * in.y + row) * in.x;
            for (int j = 0; j < k_w; j++) {
                real value[PIXELS];
                reals weight[VECTORS];
                UNROLLED for (int p = 0; p < PIXELS; p++) {
                    const int column = left + j * dil_w + p * STRIDE;
                    value[p] = inside || (uint)column < (uint)in.x ? LOAD_INPUT(first + column) : 0;
                }
                load_weights(weight, w + j * PACK);
                multiply_add_column(sum, value, weight);
            }
        }
    }
}
#endif

IN_VECTORS
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
    const int2 in = (int2)(in_w, in_h), reach = (int2)((k_w - 1) * dil_w, (k_h - 1) * dil_h);
    global const storage *weights = packed(w + w_offset, channel, in_c * k_h * k_w);
    floats sum[PIXELS][VECTORS];
    start_tile(sum, b + b_offset + channel);
#if ROWS_AT_ONCE
    const int column = first % out_w, row = first / out_w;
    if (column + PIXELS <= out_w) {
        const int top = row % out_h * stride_h - pad_t, left = column * STRIDE - pad_l;
        x += x_offset + row / out_h * in_c * in_h * in_w;
        if (left >= 0 && left + (PIXELS - 1) * STRIDE + reach.x < in_w)
            add_row(sum, x, weights, in_c, in, k_h, k_w, top, left, dil_h, dil_w, true);
        else
            add_row(sum, x, weights, in_c, in, k_h, k_w, top, left, dil_h, dil_w, false);
    } else
#endif
    {
        int top[PIXELS], left[PIXELS], image[PIXELS], start[PIXELS];
        const bool padded = place_windows(top, left, image, first, pixels, (int2)(out_w, out_h), in, reach,
                                          (int2)(stride_w, stride_h), (int2)(pad_l, pad_t));
        UNROLLED for (int p = 0; p < PIXELS; p++)
            start[p] = x_offset + (image[p] * in_c * in_h + top[p]) * in_w + left[p];
        const bool whole_rows = !padded && dil_w == 1;
        const int runs = whole_rows ? 1 : k_w, run = whole_rows ? k_w : 1;
        for (int c = 0; c < in_c; c++) {
            for (int i = 0; i < k_h; i++) {
                for (int j = 0; j < runs; j++) {
                    const int tap = (c * in_h + i * dil_h) * in_w + j * dil_w;
                    global const storage *pixel[PIXELS];
                    find_pixels(pixel, x + tap, start, padded, top, left, i * dil_h, j * dil_w, in,
                                zeros + zeros_offset);
                    multiply_add_tile(sum, pixel, weights, run);
                    weights += run * PACK;
                }
            }
        }
    }

    write_tile(sum, residual + residual_offset + first * residual_stride + channel, residual_stride,
               y + y_offset + first * y_stride + channel, y_stride, pixels - first, out_c - channel, act_a, act_b);
}
