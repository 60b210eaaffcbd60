// Convolution with a 1x1 filter, stride 1, no padding: y[p][o] = act(b[o] + sum over c of x[p][c] * w[o][c]
// (+ residual[p][o])).
// w [ceil(out_c/PACK)][in_c][PACK], or words (prelude.cl), rows beyond out_c zero; b [out_c].
// One work item computes PIXELS pixels x BLOCK channels: ids (pixel / PIXELS, channel / BLOCK) in ORDER.
kernel void conv1x1(global const input_storage *x, int x_offset, int x_stride, global const packed_weights *w, int w_offset,
                    global const bias_storage *b, int b_offset, global const storage *residual, int residual_offset,
                    int residual_stride, global output_storage *y, int y_offset, int y_stride, int pixels, int in_c,
                    int out_c, float act_a, float act_b)
{
    const int first = PIXEL_ID * PIXELS, channel = BLOCK_ID * BLOCK;
    if (channel >= out_c || IS_IDLE(first, pixels))
        return;
    global const input_storage *pixel[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++)
        pixel[p] = x + x_offset + min(first + p, pixels - 1) * x_stride;

    global const packed_weights *weight = packed(w + w_offset, channel, in_c);
    sums sum[PIXELS][VECTORS];
    floats result[PIXELS][VECTORS];
    start_tile(sum, b + b_offset + channel);
#if LOCAL
    local reals stage[LOCAL * VECTORS];
    multiply_add_group(sum, pixel, weight, in_c, stage);
#else
    multiply_add_tile(sum, pixel, weight, in_c);
#endif
    end_tile(result, sum, weight, b + b_offset + channel, out_c);

    write_tile(result, residual + residual_offset + first * residual_stride + channel, residual_stride,
               y + y_offset + first * y_stride + channel, y_stride, pixels - first, out_c - channel, act_a, act_b);
}
