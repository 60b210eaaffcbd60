// Depthwise convolution (multiplier 1) of a channel-major image: y = activation(sum + bias (+ residual)).
// w has the depthwise-filter layout: channels 4*block .. 4*block+3 of filter tap t are the pixel at column t of row block.
// One work item computes PIXELS neighbouring pixels of a row: ids (block, w/PIXELS, n*out_h + h).

kernel void depthwise(read_only image2d_t x, read_only image2d_t w, read_only image2d_t b, read_only image2d_t residual,
                      write_only image2d_t y, int batch, int in_h, int in_w, int channels, int out_h, int out_w, int k_h,
                      int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w, float act_a,
                      float act_b)
{
    const int block = get_global_id(0), out_column = get_global_id(1) * PIXELS, out_row = get_global_id(2);
    if (block >= blocks_of(channels) || out_column >= out_w || out_row >= batch * out_h)
        return;
    const int first_h = out_row % out_h * stride_h - pad_t, first_w = out_column * stride_w - pad_l;

    TILE(sum);
    start_tile(sum, b, block);
    for (int k_row = 0; k_row < k_h; k_row++) {
        const int h = first_h + k_row * dil_h;
        if (h < 0 || h >= in_h)
            continue;
        for (int k_column = 0; k_column < k_w; k_column++) {
            const real4 weight = READ_REAL(w, k_row * k_w + k_column, block);
            UNROLLED for (int p = 0; p < PIXELS; p++) {
                const int column = column_of(block, first_w + p * stride_w + k_column * dil_w, in_w);
                const real4 pixel = READ_REAL(x, column, out_row / out_h * in_h + h);
                PART(sum)[0][p] = MULTIPLY_ADD(pixel, weight, PART(sum)[0][p]);
            }
            ADDED(sum, 1);
        }
    }
    END_TILE(sum);
    write_tile(sum, residual, y, block, out_column, out_row, out_w, channels, act_a, act_b);
}
