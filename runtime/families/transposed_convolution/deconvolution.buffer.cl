// Transposed convolution, gathered:
// y[p][o] = act(b[o] + sum over taps t and c of x[pixel that tap t brings to p][c] * w[o][t][c] (+ residual[p][o])).
// Output row r receives input row i through filter row k where r + pad_t = i * stride_h + k * dil_h; columns alike. So
// the outputs of one *phase*, whose rows and columns leave the same remainders by the strides, are reached by the same
// taps, of which filter rows and columns are step_h and step_w apart (step = stride / gcd(stride, dil)). A work item
// computes outputs of one phase and visits those taps alone. Weights lie in the order of the phases' taps (classes by
// step). Pads may be negative: outputs that no tap reaches get the bias.

// The first tap that reaches outputs at `at` (output + pad), or `step` where none does.
INLINED int first_tap(int at, int stride, int dil, int step)
{
    int tap = 0;
    while (tap < step && (at - tap * dil) % stride != 0)
        tap++;
    return tap;
}

// Taps of an axis in one class, and in all classes before it.
INLINED int taps_of(int first, int kernel_size, int step)
{
    return first < step && first < kernel_size ? (kernel_size - first + step - 1) / step : 0;
}

INLINED int taps_before(int first, int kernel_size, int step)
{
    return kernel_size / step * first + min(kernel_size % step, first);
}

#ifdef BLOCK
// w [groups][ceil(out_c/PACK)][taps][in_c][PACK], rows beyond out_c zero; b [groups*out_c]; in_c and out_c are of one
// group; zeros: at least in_c zeros, which stand for pixels outside the input.
// One work item computes PIXELS outputs of a phase x BLOCK channels:
// ids (phase * tiles + tile, channel / BLOCK, group), the first two in ORDER.
kernel void deconv2d(global const storage *x, int x_offset, int x_stride, global const storage *w, int w_offset,
                     global const storage *b, int b_offset, global const storage *zeros, int zeros_offset,
                     global const storage *residual, int residual_offset, int residual_stride, global storage *y,
                     int y_offset, int y_stride, int batch, int in_h, int in_w, int in_c, int out_h, int out_w,
                     int out_c, int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h,
                     int dil_w, int step_h, int step_w, int groups, float act_a, float act_b)
{
    const int channel = BLOCK_ID * BLOCK, group = get_global_id(2);
    const int rows = (out_h + stride_h - 1) / stride_h, columns = (out_w + stride_w - 1) / stride_w;
    const int pixels = batch * rows * columns, tiles = (pixels + PIXELS - 1) / PIXELS;
    const int phase = PIXEL_ID / tiles, first = PIXEL_ID % tiles * PIXELS;
    if (phase >= stride_h * stride_w || channel >= out_c || group >= groups)
        return;
    const int at_h = phase / stride_w + pad_t, at_w = phase % stride_w + pad_l;
    const int first_h = first_tap(at_h, stride_h, dil_h, step_h), taps_h = taps_of(first_h, k_h, step_h);
    const int first_w = first_tap(at_w, stride_w, dil_w, step_w), taps_w = taps_of(first_w, k_w, step_w);
    const int top = (at_h - first_h * dil_h) / stride_h, left = (at_w - first_w * dil_w) / stride_w;

    // Of each output: its place, negative where there is none, and row, column and place of the first tap's input.
    int out[PIXELS], in_row[PIXELS], in_column[PIXELS], start[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++) {
        const int pixel = min(first + p, pixels - 1), column = pixel % columns, line = pixel / columns;
        const int row = line % rows, image = line / rows;
        const int out_row = row * stride_h + phase / stride_w, out_column = column * stride_w + phase % stride_w;
        const bool exists = first + p < pixels && out_row < out_h && out_column < out_w;
        out[p] = exists ? (image * out_h + out_row) * out_w + out_column : -1;
        in_row[p] = row + top;
        in_column[p] = column + left;
        start[p] = x_offset + ((image * in_h + in_row[p]) * in_w + in_column[p]) * x_stride + group * in_c;
    }
    const int before = k_w * taps_before(first_h, k_h, step_h) + taps_h * taps_before(first_w, k_w, step_w);
    const int up = dil_h * step_h / stride_h, back = dil_w * step_w / stride_w;

    floats sum[PIXELS][VECTORS];
    start_tile(sum, b + b_offset + group * out_c + channel);
    const int group_weights = (out_c + PACK - 1) / PACK * PACK * k_h * k_w * in_c;
    global const storage *weights = packed(w + w_offset + group * group_weights, channel, k_h * k_w * in_c);
    weights += before * in_c * PACK;
    for (int i = 0; i < taps_h; i++) {
        for (int j = 0; j < taps_w; j++) {
            global const storage *pixel[PIXELS];
            UNROLLED for (int p = 0; p < PIXELS; p++) {
                const uint tap_row = in_row[p] - i * up, tap_column = in_column[p] - j * back;
                const bool inside = tap_row < (uint)in_h && tap_column < (uint)in_w;
                pixel[p] = inside ? x + start[p] - (i * up * in_w + j * back) * x_stride : zeros + zeros_offset;
            }
            multiply_add_tile(sum, pixel, weights, in_c);
            weights += in_c * PACK;
        }
    }

    UNROLLED for (int p = 0; p < PIXELS; p++) {
        if (out[p] >= 0) {
            UNROLLED for (int k = 0; k < VECTORS; k++) {
                const int own = channel + k * VECTOR, exist = out_c - own, at = group * out_c + own;
                if (exist > 0) {
                    floats v = sum[p][k];
#if RESIDUAL
                    v += load_some(residual + residual_offset + out[p] * residual_stride + at, exist);
#endif
                    store_some(ACTIVATE(v, act_a, act_b), y + y_offset + out[p] * y_stride + at, exist);
                }
            }
        }
    }
}
#else
// Each channel with its own filter. w [taps][channels]; b [channels]. `zeros` is not used: a tap outside is skipped.
// One work item computes PIXELS outputs of a phase in a row x VECTOR channels:
// ids (channel / VECTOR, column phase * tiles + tile, batch * out_h).
kernel void deconv_depthwise(global const storage *x, int x_offset, int x_stride, global const storage *w, int w_offset,
                             global const storage *b, int b_offset, global const storage *zeros, int zeros_offset,
                             global const storage *residual, int residual_offset, int residual_stride,
                             global storage *y, int y_offset, int y_stride, int batch, int in_h, int in_w, int channels,
                             int out_h, int out_w, int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l,
                             int dil_h, int dil_w, int step_h, int step_w, float act_a, float act_b)
{
    const int tiles = ((out_w + stride_w - 1) / stride_w + PIXELS - 1) / PIXELS;
    const int block = get_global_id(0), line = get_global_id(2);
    const int phase = get_global_id(1) / tiles, first = get_global_id(1) % tiles * PIXELS;
    if (block * VECTOR >= channels || phase >= stride_w || line >= batch * out_h)
        return;
    const int channel = block_start(block, channels), at_h = line % out_h + pad_t, at_w = phase + pad_l;
    const int first_h = first_tap(at_h, stride_h, dil_h, step_h), taps_h = taps_of(first_h, k_h, step_h);
    const int first_w = first_tap(at_w, stride_w, dil_w, step_w), taps_w = taps_of(first_w, k_w, step_w);
    const int top = (at_h - first_h * dil_h) / stride_h, left = (at_w - first_w * dil_w) / stride_w + first;
    const int before = k_w * taps_before(first_h, k_h, step_h) + taps_h * taps_before(first_w, k_w, step_w);
    const int up = dil_h * step_h / stride_h, back = dil_w * step_w / stride_w;
    x += x_offset + line / out_h * in_h * in_w * x_stride + channel;
    w += w_offset + before * channels + channel;

    floats sum[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++)
        sum[p] = LOAD_VECTOR(b + b_offset + channel);
    for (int i = 0; i < taps_h; i++) {
        const int row = top - i * up;
        if ((uint)row >= (uint)in_h)
            continue;
        for (int j = 0; j < taps_w; j++) {
            const floats weight = LOAD_VECTOR(w + (i * taps_w + j) * channels);
            UNROLLED for (int p = 0; p < PIXELS; p++) {
                const int column = left + p - j * back;
                if ((uint)column < (uint)in_w) {
                    const floats v = LOAD_VECTOR(x + (row * in_w + column) * x_stride);
                    sum[p] = MULTIPLY_ADD(v, weight, sum[p]);
                }
            }
        }
    }

    UNROLLED for (int p = 0; p < PIXELS; p++) {
        const int column = (first + p) * stride_w + phase;
        if (column < out_w) {
            const int out = line * out_w + column;
            floats v = sum[p];
#if RESIDUAL
            v += LOAD_VECTOR(residual + residual_offset + out * residual_stride + channel);
#endif
            STORE_VECTOR(ACTIVATE(v, act_a, act_b), y + y_offset + out * y_stride + channel);
        }
    }
}
#endif
