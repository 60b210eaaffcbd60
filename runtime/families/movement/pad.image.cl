// Spatial padding of a channel-major image: PAD: with `value`, reflecting (without the edge), or with the edge.
// pad_t and pad_l rows and columns stand before the input.
// One work item writes one pixel of a block: ids (block, w, n*height + h).

int source_index(int index, int size)
{
#if PAD == PAD_REFLECT
    index = index < 0 ? -index : index;
    return index >= size ? 2 * (size - 1) - index : index;
#elif PAD == PAD_EDGE
    return clamp(index, 0, size - 1);
#else
    return index;
#endif
}

kernel void pad(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height, int width, int in_h,
                int in_w, int pad_t, int pad_l, float value)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    const int in_row = source_index(row % height - pad_t, in_h), in_column = source_index(w - pad_l, in_w);
    float4 pixel = (float4)(value);
    if (in_row >= 0 && in_row < in_h && in_column >= 0 && in_column < in_w)
        pixel = READ(x, block * in_w + in_column, row / height * in_h + in_row);
    write_block(y, block, w, row, width, channels, pixel);
}
