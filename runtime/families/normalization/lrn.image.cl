// Local response normalisation across the channels of a channel-major image:
// y = x / (bias + alpha/size * sum of x^2 over (size-1)/2 channels before, the channel, and the rest of size after)^beta.
// One work item computes one pixel of a block: ids (block, w, n*height + h).

kernel void lrn(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height, int width, int size,
                float alpha, float beta, float bias)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    const int start = block * 4 - (size - 1) / 2;
    float4 squares = (float4)(0.0f);
    for (int i = 0; i < size; i++) {
        const float4 pixel = read_channels(x, start + i, w, row, width);
        squares += existing(pixel * pixel, (float4)(0.0f), start + i, channels);
    }
    const float4 base = bias + alpha / size * squares;
    write_block(y, block, w, row, width, channels, READ(x, block * width + w, row) / pow(base, (float4)(beta)));
}
