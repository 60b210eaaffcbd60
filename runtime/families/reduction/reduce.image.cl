// Reduction of a channel-major image over height and width to one pixel: REDUCE: mean, sum, maximum, minimum.
// One work item computes a block of channels of one image: ids (block, 0, n).

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

kernel void reduce(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height, int width)
{
    const int block = get_global_id(0), n = get_global_id(2);
    if (block >= blocks_of(channels) || get_global_id(1) > 0 || n >= batch)
        return;
    float4 result = (float4)(START);
    for (int h = 0; h < height; h++)
        for (int w = 0; w < width; w++)
            result = TAKE(result, READ(x, block * width + w, n * height + h));
#if REDUCE == REDUCE_MEAN
    result /= (float)(height * width);
#endif
    write_block(y, block, 0, n, 1, channels, result);
}
