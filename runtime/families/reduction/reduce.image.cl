// Reduction of a channel-major image over height and width to one pixel: REDUCE: mean, sum, maximum, minimum.
// LANES 1: a work item computes a block of channels of one image. Else the work items of a work group share it, and join
// what they have in local memory. ids (lane, block, n). Any number of them gives the same.
#define MOST_ITEMS 512

#if REDUCE == REDUCE_MAX
#define START (-INFINITY)
#define TAKE(result, pixel) fmax(result, pixel)
#elif REDUCE == REDUCE_MIN
#define START INFINITY
#define TAKE(result, pixel) fmin(result, pixel)
#else
#define START 0.0f
#define TAKE(result, pixel) ((result) + (pixel))
#endif

#if LANES > 1
float4 joined(float4 value, local float4 *shared) JOIN_LANES(float4, TAKE)
#endif

kernel void reduce(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height, int width)
{
    const int block = min((int)get_global_id(1), blocks_of(channels) - 1), n = min((int)get_global_id(2), batch - 1);
    const bool writes = get_global_id(0) == 0 && get_global_id(1) < blocks_of(channels) && get_global_id(2) < batch;
#if LANES > 1
    local float4 shared[MOST_ITEMS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int first = alone ? 0 : get_local_id(0), step = alone ? 1 : get_local_size(0);
#else
    const int first = 0, step = 1;
    if (!writes)
        return;
#endif
    float4 result = (float4)(START);
    for (int v = first; v < height * width; v += step)
        result = TAKE(result, READ(x, block * width + v % width, n * height + v / width));
#if LANES > 1
    if (!alone)
        result = joined(result, shared);
    if (!writes)
        return;
#endif
#if REDUCE == REDUCE_MEAN
    result /= (float)(height * width);
#endif
    write_block(y, block, 0, n, 1, channels, result);
}
