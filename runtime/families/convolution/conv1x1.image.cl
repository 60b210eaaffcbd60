// Convolution with a 1x1 filter, stride 1 and no padding, of a channel-major image: y = activation(sum + bias
// (+ residual)). Arguments as in conv2d; rows = batch*height.
// One work item computes PIXELS pixels x BLOCKS blocks: ids (block/BLOCKS, w/PIXELS, row).

kernel void conv1x1(read_only image2d_t x, read_only image2d_t w, read_only image2d_t b, read_only image2d_t residual,
                    write_only image2d_t y, int rows, int width, int in_c, int out_c, float act_a, float act_b)
{
    const int out_block = get_global_id(0) * BLOCKS, column = get_global_id(1) * PIXELS, row = get_global_id(2);
    if (out_block >= blocks_of(out_c) || column >= width || row >= rows)
        return;
    const int in_blocks = blocks_of(in_c);

    TILE(sum);
    start_tile(sum, b, out_block);
    for (int in_block = 0; in_block < in_blocks; in_block++) {
        // Pixels beyond the row are those of the next block: what comes of them is not written.
        real4 pixel[PIXELS];
        UNROLLED for (int p = 0; p < PIXELS; p++)
            pixel[p] = READ_REAL(x, in_block * width + column + p, row);
        multiply_add_tile(PART(sum), pixel, w, in_block * 4, out_block, 1);
        ADDED(sum, 4);
    }
    END_TILE(sum);
    end_tile(sum, b, out_block, out_c);
    write_tile(sum, residual, y, out_block, column, row, width, out_c, act_a, act_b);
}
