// Pooling of a channel-major image; POOL: maximum, or average. The average divides by the window's elements that lie in
// the image, or by all of them with count_include_pad.
// One work item computes one pixel of a block: ids (block, w, n*out_h + h).

#if POOL == POOLING_MAX
#define START (-INFINITY)
#define TAKE(result, pixel) fmax(result, pixel)
#else
#define START 0.0f
#define TAKE(result, pixel) ((result) + (pixel))
#endif

kernel void pool(read_only image2d_t x, write_only image2d_t y, int batch, int in_h, int in_w, int channels, int out_h,
                 int out_w, int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w,
                 int count_include_pad)
{
    const int block = get_global_id(0), out_column = get_global_id(1), out_row = get_global_id(2);
    if (block >= blocks_of(channels) || out_column >= out_w || out_row >= batch * out_h)
        return;
    const int first_h = out_row % out_h * stride_h - pad_t, first_w = out_column * stride_w - pad_l;

    float4 result = (float4)(START);
    int count = 0;
    for (int k_row = 0; k_row < k_h; k_row++) {
        const int h = first_h + k_row * dil_h;
        for (int k_column = 0; k_column < k_w; k_column++) {
            const int w = first_w + k_column * dil_w;
            if (h >= 0 && h < in_h && w >= 0 && w < in_w) {
                result = TAKE(result, READ(x, block * in_w + w, out_row / out_h * in_h + h));
                count++;
            }
        }
    }
    const int divisor = POOL == POOLING_MAX ? 1 : count_include_pad ? k_h * k_w : max(count, 1);
    write_block(y, block, out_column, out_row, out_w, channels, result / (float)divisor);
}
