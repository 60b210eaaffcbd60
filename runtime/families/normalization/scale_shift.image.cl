// y = activation(x*s[c] + t[c]) of a channel-major image; s and t are rows of blocks.
// One work item computes one pixel of a block: ids (block, w, n*height + h).

kernel void scale_shift(read_only image2d_t x, read_only image2d_t s, read_only image2d_t t, write_only image2d_t y,
                        int batch, int channels, int height, int width, float act_a, float act_b)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    const float4 value = READ(x, block * width + w, row) * READ(s, block, 0) + READ(t, block, 0);
    write_block(y, block, w, row, width, channels, ACTIVATE(value, act_a, act_b));
}
