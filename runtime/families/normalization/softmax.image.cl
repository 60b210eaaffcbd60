// Softmax over the channels of a channel-major image; LOG=1 gives its logarithm.
// One work item computes all channels of a pixel: ids (0, w, n*height + h).

// The pixel of a block with -infinity for the channels that do not exist.
float4 logits(read_only image2d_t x, int block, int w, int row, int width, int channels)
{
    return existing(READ(x, block * width + w, row), (float4)(-INFINITY), block * 4, channels);
}

kernel void softmax(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height, int width)
{
    const int w = get_global_id(1), row = get_global_id(2);
    if (get_global_id(0) > 0 || w >= width || row >= batch * height)
        return;
    float4 most = (float4)(-INFINITY);
    for (int block = 0; block < blocks_of(channels); block++)
        most = fmax(most, logits(x, block, w, row, width, channels));
    const float greatest = fmax(fmax(most.x, most.y), fmax(most.z, most.w));

    float4 sums = (float4)(0.0f);
    for (int block = 0; block < blocks_of(channels); block++)
        sums += exp(logits(x, block, w, row, width, channels) - greatest);
    const float sum = sums.x + sums.y + sums.z + sums.w;

    for (int block = 0; block < blocks_of(channels); block++) {
        const float4 pixel = READ(x, block * width + w, row) - greatest;
#if LOG
        write_block(y, block, w, row, width, channels, pixel - log(sum));
#else
        write_block(y, block, w, row, width, channels, exp(pixel) / sum);
#endif
    }
}
