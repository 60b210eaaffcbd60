// Concatenation along the channels of up to four channel-major images; those that are not needed have 0 channels and may
// be any image. The result starts at block y_block of the output, so that more inputs take several launches where
// their sum of channels is a multiple of four. Inputs that start on a block are read once a pixel, others twice.
// One work item writes one pixel of a block: ids (block of the result, w, row).

// The pixel with the components that are channels of this input; `first` is where the pixel's channels start in it.
float4 join(float4 pixel, read_only image2d_t x, int first, int channels, int w, int row, int width)
{
    if (first <= -4 || first >= channels)
        return pixel;
    return existing(read_channels(x, first, w, row, width), pixel, first, channels);
}

kernel void concat(read_only image2d_t a, read_only image2d_t b, read_only image2d_t c, read_only image2d_t d,
                   write_only image2d_t y, int rows, int width, int a_channels, int b_channels, int c_channels,
                   int d_channels, int y_block)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    const int b_start = a_channels, c_start = b_start + b_channels, d_start = c_start + c_channels;
    if (block >= blocks_of(d_start + d_channels) || w >= width || row >= rows)
        return;
    float4 pixel = join((float4)(0.0f), a, block * 4, a_channels, w, row, width);
    pixel = join(pixel, b, block * 4 - b_start, b_channels, w, row, width);
    pixel = join(pixel, c, block * 4 - c_start, c_channels, w, row, width);
    pixel = join(pixel, d, block * 4 - d_start, d_channels, w, row, width);
    write_imagef(y, (int2)((y_block + block) * width + w, row), pixel);
}
