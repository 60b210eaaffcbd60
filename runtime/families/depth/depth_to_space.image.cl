// DepthToSpace of a channel-major image: y[n, c, h*size + i, w*size + j] = x[n, channel(c, i, j), h, w].
// CRD: the channel is (c*size + i)*size + j, else (i*size + j)*channels + c; `channels` and the extents are those of y.
// One work item writes one pixel of a block: ids (block, w, n*height + h) of y.

kernel void depth_to_space(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height,
                           int width, int size)
{
    const int block = get_global_id(0), column = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || column >= width || row >= batch * height)
        return;
    const int in_width = width / size, w = column / size;  // height is a multiple of size, so rows divide as they lie
    const int in_row = row / size, place = row % size * size + column % size;
#if CRD
    const int step = size * size;
    float component[4];
    UNROLLED for (int k = 0; k < 4; k++)
        component[k] = read_channel(x, (block * 4 + k) * step + place, w, in_row, in_width);
    const float4 pixel = VECTOR_OF(component);
#else
    const float4 pixel = read_channels(x, place * channels + block * 4, w, in_row, in_width);
#endif
    write_block(y, block, column, row, width, channels, pixel);
}
