// Depthwise convolution: y[p][c] = act(b[c] + sum over taps (i, j) of x[pixel under tap (i, j) of p][c] * w[i][j][c]
// (+ residual[p][c])).
// w [k_h][k_w][channels]; b [channels]. A tap in the padding is skipped. Of an input in bytes `zeros` is what stands for 0,
// and behind the weights, which are integers / 128, are the scales of the sums, [channels].
// One work item computes a tile of ROWS x PIXELS neighbouring pixels x VECTOR channels:
// ids (channel / VECTOR, column / PIXELS, batch * ceil(out_h / ROWS)).
// WINDOW 3 or 5 (k_h = k_w = WINDOW, no dilation, stride STRIDE both ways) reads each input of the tile once and keeps the
// weights in registers, of 5 those of a row of inputs at a time; WINDOW 0 takes any window.

INLINED floats load_input(global const input_storage *p, float zero) { return load_inputs(p, 1, VECTOR) - zero; }

// sum += products of the window's taps. x: the image's first row; top and
// left: row and column of the first tap of the tile's first pixel.
#if WINDOW
#define SPAN(outputs) (((outputs) - 1) * STRIDE + WINDOW)

INLINED void add_taps(floats sum[ROWS][PIXELS], global const input_storage *x, int x_stride, global const storage *w,
                      int channels, int top, int left, int in_h, int in_w, int k_h, int k_w, int stride_h,
                      int stride_w, int dil_h, int dil_w, float zero)
{
    floats weight[WINDOW * WINDOW];
#if WINDOW == 3
    UNROLLED for (int t = 0; t < WINDOW * WINDOW; t++)
        weight[t] = LOAD_VECTOR(w + t * channels);
#endif
    UNROLLED for (int r = 0; r < SPAN(ROWS); r++) {
        if ((uint)(top + r) >= (uint)in_h)
            continue;
#if WINDOW > 3
        UNROLLED for (int t = 0; t < WINDOW * WINDOW; t++)
            if (t / WINDOW <= r && (r - t / WINDOW) % STRIDE == 0 && (r - t / WINDOW) / STRIDE < ROWS)
                weight[t] = LOAD_VECTOR(w + t * channels);
#endif
        global const input_storage *row = x + ((top + r) * in_w + left) * x_stride;
        UNROLLED for (int c = 0; c < SPAN(PIXELS); c++) {
            if ((uint)(left + c) >= (uint)in_w)
                continue;
            const floats v = load_input(row + c * x_stride, zero);
            UNROLLED for (int q = 0; q < ROWS; q++) {
                UNROLLED for (int j = 0; j < WINDOW; j++) {
                    const int i = r - q * STRIDE, p = (c - j) / STRIDE;
                    if (i >= 0 && i < WINDOW && c >= j && (c - j) % STRIDE == 0 && p < PIXELS)
                        sum[q][p] = MULTIPLY_ADD(v, weight[i * WINDOW + j], sum[q][p]);
                }
            }
        }
    }
}
#else
INLINED void add_taps(floats sum[ROWS][PIXELS], global const input_storage *x, int x_stride, global const storage *w,
                      int channels, int top, int left, int in_h, int in_w, int k_h, int k_w, int stride_h,
                      int stride_w, int dil_h, int dil_w, float zero)
{
    UNROLLED for (int q = 0; q < ROWS; q++) {
        for (int i = 0; i < k_h; i++) {
            const int row = top + q * stride_h + i * dil_h;
            if ((uint)row >= (uint)in_h)
                continue;
            for (int j = 0; j < k_w; j++) {
                const floats weight = LOAD_VECTOR(w + (i * k_w + j) * channels);
                UNROLLED for (int p = 0; p < PIXELS; p++) {
                    const int column = left + p * stride_w + j * dil_w;
                    if ((uint)column < (uint)in_w) {
                        global const input_storage *tap = x + (row * in_w + column) * x_stride;
                        const floats v = load_input(tap, zero);
                        sum[q][p] = MULTIPLY_ADD(v, weight, sum[q][p]);
                    }
                }
            }
        }
    }
}
#endif

kernel void depthwise(global const input_storage *x, int x_offset, int x_stride, global const storage *w, int w_offset,
                      global const bias_storage *b, int b_offset, global const input_storage *zeros, int zeros_offset,
                      global const storage *residual, int residual_offset, int residual_stride, global output_storage *y,
                      int y_offset, int y_stride, int batch, int in_h, int in_w, int channels, int out_h, int out_w,
                      int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w,
                      float act_a, float act_b)
{
    const int block = get_global_id(0), first_column = get_global_id(1) * PIXELS;
    const int tiles = (out_h + ROWS - 1) / ROWS, tile = get_global_id(2);
    const int image = tile / tiles, first_row = tile % tiles * ROWS;
    if (block * VECTOR >= channels || first_column >= out_w || image >= batch)
        return;
    const int channel = block_start(block, channels);
    const int top = first_row * stride_h - pad_t, left = first_column * stride_w - pad_l;
    x += x_offset + image * in_h * in_w * x_stride + channel;
    w += w_offset + channel;

#if BYTES & 4
    const float zero = zeros[zeros_offset];
#else
    const float zero = 0;
#endif
    floats sum[ROWS][PIXELS];
    b += b_offset + channel;
#if !(BYTES & 16)
    const floats bias = LOAD_VECTOR(b);
#endif
#if BYTES & 16
    const floats start = 0;
#elif BYTES & 4
    const floats start = 0, scale = LOAD_VECTOR(w + k_h * k_w * channels);
#else
    const floats start = bias;
#endif
    UNROLLED for (int q = 0; q < ROWS; q++)
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[q][p] = start;
    add_taps(sum, x, x_stride, w, channels, top, left, in_h, in_w, k_h, k_w, stride_h, stride_w, dil_h, dil_w,
             zero);

    UNROLLED for (int q = 0; q < ROWS; q++) {
        UNROLLED for (int p = 0; p < PIXELS; p++) {
            const int row = first_row + q, column = first_column + p;
            if (row < out_h && column < out_w) {
                const int out = (image * out_h + row) * out_w + column;
                floats v = sum[q][p];
#if BYTES & 16
                v = fixed_steps(TO_INTS(v * 128.0f), b, channels);
#elif BYTES & 4
                v = MULTIPLY_ADD(v, scale, bias);
#endif
#if RESIDUAL
                v += LOAD_VECTOR(residual + residual_offset + out * residual_stride + channel);
#endif
                store_result(ACTIVATE(v, act_a, act_b), y + y_offset + out * y_stride + channel, 1, VECTOR, act_a);
            }
        }
    }
}
