// Convolution of a channel-major image: y = activation(sum + bias (+ residual)).
// w has the conv-filter layout: output channels 4*block .. 4*block+3 and input channel i of filter tap t are the
// components at column i of row block*k_h*k_w + t; b is a row of blocks. in_c and out_c are a group's; with several
// groups both must be multiples of four, and BLOCKS divide out_c/4. Without a residual any image may stand there.
// One work item computes PIXELS pixels x BLOCKS blocks: ids (block/BLOCKS, w/PIXELS, n*out_h + h).

kernel void conv2d(read_only image2d_t x, read_only image2d_t w, read_only image2d_t b, read_only image2d_t residual,
                   write_only image2d_t y, int batch, int in_h, int in_w, int in_c, int out_h, int out_w, int out_c,
                   int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w, int groups,
                   float act_a, float act_b)
{
    const int out_block = get_global_id(0) * BLOCKS, out_column = get_global_id(1) * PIXELS;
    const int out_row = get_global_id(2);
    if (out_block >= groups * blocks_of(out_c) || out_column >= out_w || out_row >= batch * out_h)
        return;
    const int in_blocks = blocks_of(in_c), group_block = out_block / blocks_of(out_c) * in_blocks;
    const int first_h = out_row % out_h * stride_h - pad_t, first_w = out_column * stride_w - pad_l;

    TILE(sum);
    start_tile(sum, b, out_block);
    for (int in_block = 0; in_block < in_blocks; in_block++) {
        for (int k_row = 0; k_row < k_h; k_row++) {
            const int h = first_h + k_row * dil_h;
            if (h < 0 || h >= in_h)
                continue;
            for (int k_column = 0; k_column < k_w; k_column++) {
                const int tap_w = first_w + k_column * dil_w;
                real4 pixel[PIXELS];
                UNROLLED for (int p = 0; p < PIXELS; p++)
                    pixel[p] = READ_REAL(x, column_of(group_block + in_block, tap_w + p * stride_w, in_w),
                                         out_row / out_h * in_h + h);
                const int tap = (out_block * k_h + k_row) * k_w + k_column;
                multiply_add_tile(PART(sum), pixel, w, in_block * 4, tap, k_h * k_w);
                ADDED(sum, 4);
            }
        }
    }
    END_TILE(sum);
    end_tile(sum, b, out_block, groups * out_c);
    write_tile(sum, residual, y, out_block, out_column, out_row, out_w, groups * out_c, act_a, act_b);
}
