// SpaceToDepth of a channel-major image: y[n, channel(c, i, j), h, w] = x[n, c, h*size + i, w*size + j].
// CRD: the channel is (c*size + i)*size + j, else (i*size + j)*in_c + c; the extents are those of y.
// One work item writes one pixel of a block: ids (block, w, n*height + h) of y.

kernel void space_to_depth(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height,
                           int width, int size, int in_c)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    float component[4];
    UNROLLED for (int k = 0; k < 4; k++) {
        const int channel = block * 4 + k;
#if CRD
        const int c = channel / (size * size), place = channel % (size * size);
#else
        const int c = channel % in_c, place = channel / in_c;
#endif
        // A channel that does not exist is left out by write_block, whatever is read for it.
        component[k] = read_channel(x, c, w * size + place % size, row * size + place / size, width * size);
    }
    write_block(y, block, w, row, width, channels, VECTOR_OF(component));
}
