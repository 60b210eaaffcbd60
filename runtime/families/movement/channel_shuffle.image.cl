// Channel shuffle of a channel-major image: with the channels as a matrix of `groups` rows, y has its transpose, so that
// channel c comes from channel c % groups * (channels / groups) + c / groups.
// One work item writes one pixel of a block: ids (block, w, n*height + h).

kernel void channel_shuffle(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height,
                            int width, int groups)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    float component[4];
    UNROLLED for (int i = 0; i < 4; i++) {
        const int channel = block * 4 + i;
        component[i] = read_channel(x, channel % groups * (channels / groups) + channel / groups, w, row, width);
    }
    write_block(y, block, w, row, width, channels, VECTOR_OF(component));
}
