// Softmax over the channels of a channel-major image; LOG=1 gives its logarithm.
// LANES 1: a work item computes all channels of a pixel. Else the work items of a work group share a pixel, and join
// their sums in local memory. ids (lane, w, n*height + h). Any number of them gives the same.
#define MOST_ITEMS 1024

#if LANES > 1
float greatest_of_items(float value, local float *shared) JOIN_LANES(float, GREATER)
float sum_of_items(float value, local float *shared) JOIN_LANES(float, SUM)
#endif

// The pixel of a block with -infinity for the channels that do not exist.
float4 logits(read_only image2d_t x, int block, int w, int row, int width, int channels)
{
    return existing(READ(x, block * width + w, row), (float4)(-INFINITY), block * 4, channels);
}

kernel void softmax(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height, int width)
{
    const int w = min((int)get_global_id(1), width - 1), row = min((int)get_global_id(2), batch * height - 1);
    const bool exists = get_global_id(1) < width && get_global_id(2) < batch * height;
#if LANES > 1
    local float shared[MOST_ITEMS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int first = alone ? 0 : get_local_id(0), step = alone ? 1 : get_local_size(0);
    // Work groups behind the first on axis 0 have nothing to write.
    const bool writes = exists && get_global_id(0) == get_local_id(0);
#else
    const int first = 0, step = 1;
    const bool writes = exists && get_global_id(0) == 0;
    if (!writes)
        return;
#endif
    float4 most = (float4)(-INFINITY);
    for (int block = first; block < blocks_of(channels); block += step)
        most = fmax(most, logits(x, block, w, row, width, channels));
    float greatest = fmax(fmax(most.x, most.y), fmax(most.z, most.w));
#if LANES > 1
    if (!alone)
        greatest = greatest_of_items(greatest, shared);
#endif
    float4 sums = (float4)(0.0f);
    for (int block = first; block < blocks_of(channels); block += step)
        sums += exp(logits(x, block, w, row, width, channels) - greatest);
    float sum = sums.x + sums.y + sums.z + sums.w;
#if LANES > 1
    if (!alone)
        sum = sum_of_items(sum, shared);
    if (!writes)
        return;
#endif
    for (int block = first; block < blocks_of(channels); block += step) {
        const float4 pixel = READ(x, block * width + w, row) - greatest;
#if LOG
        write_block(y, block, w, row, width, channels, pixel - log(sum));
#else
        write_block(y, block, w, row, width, channels, exp(pixel) / sum);
#endif
    }
}
