// A part of a channel-major image: y[n, c, h, w] = x[start_n + n, start_c + c, start_h + h*step_h, start_w + w*step_w].
// A channel range that starts on a block is read once a pixel, another twice.
// One work item writes one pixel of a block: ids (block, w, n*height + h).

kernel void slice(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height, int width,
                  int in_h, int in_w, int start_n, int start_c, int start_h, int start_w, int step_h, int step_w)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    const int in_row = (start_n + row / height) * in_h + start_h + row % height * step_h;
    const float4 pixel = read_channels(x, start_c + block * 4, start_w + w * step_w, in_row, in_w);
    write_block(y, block, w, row, width, channels, pixel);
}
