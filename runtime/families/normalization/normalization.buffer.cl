// Normalisation of groups of channels over all pixels: y = act((x - mean) / sqrt(variance + epsilon) * s[c] + t[c]),
// where mean and variance are those of the group; centered 0 takes 0 for the mean. Group g of image b has the channels
// g*channels .. g*channels + channels-1; element (b, c, p) is at b*batch_stride + c*channel_stride + p*pixel_stride.
// A row of a matrix (layer normalisation) is an image of one pixel and one group.
// LANES 1: a work item normalises a group. Else the work items of a work group share the groups of elements that they
// have in common, and add their sums in local memory: ids (lane, b, g). Any number of lanes gives the same.
#define MOST_ITEMS 1024

// The elements of a group, as `outer` runs of `inner` elements.
typedef struct {
    int outer, inner, vectors;
} runs;

// Sum over the vectors first, first + step, ... of x - mean, or of its square.
INLINED float sum_of_share(global const storage *x, runs r, int outer_stride, int inner_stride, float mean,
                           bool squares, int first, int step)
{
    lanes sum, part;
    sum.vector = 0.0f;
    for (int v = first; v < r.outer * r.vectors; v += step) {
        const int i = v % r.vectors * VECTOR, exist = r.inner - i;
        part.vector = load_strided(x + v / r.vectors * outer_stride + i * inner_stride, inner_stride, exist) - mean;
        for (int k = exist; k < VECTOR; k++)
            part.element[k] = 0.0f;
        sum.vector += squares ? part.vector * part.vector : part.vector;
    }
    float total = 0.0f;
    for (int k = 0; k < VECTOR; k++)
        total += sum.element[k];
    return total;
}

#if LANES > 1
INLINED float sum_of_items(float value, local float *shared) JOIN_LANES(float, SUM)
#endif

kernel void normalization(global const storage *x, int x_offset, global const storage *s, int s_offset,
                          global const storage *t, int t_offset, global storage *y, int y_offset, int batch, int groups,
                          int channels, int pixels, int x_batch_stride, int x_channel_stride, int x_pixel_stride,
                          int y_batch_stride, int y_channel_stride, int y_pixel_stride, int centered, float epsilon,
                          float act_a, float act_b)
{
    const int b = min((int)get_global_id(1), batch - 1), g = min((int)get_global_id(2), groups - 1);
    const bool by_channel = x_channel_stride == 1; // vectors run along the channels, else along the pixels
    runs r = {by_channel ? pixels : channels, by_channel ? channels : pixels, 0};
    r.vectors = (r.inner + VECTOR - 1) / VECTOR;
    const int x_outer = by_channel ? x_pixel_stride : x_channel_stride;
    const int x_inner = by_channel ? x_channel_stride : x_pixel_stride;
    const int y_outer = by_channel ? y_pixel_stride : y_channel_stride;
    const int y_inner = by_channel ? y_channel_stride : y_pixel_stride;
    x += x_offset + b * x_batch_stride + g * channels * x_channel_stride;
    y += y_offset + b * y_batch_stride + g * channels * y_channel_stride;
    s += s_offset + g * channels;
    t += t_offset + g * channels;
    const float count = (float)(channels * pixels);
    float mean = 0.0f;
#if LANES > 1
    local float shared[MOST_ITEMS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int first = alone ? 0 : get_local_id(0), step = alone ? 1 : get_local_size(0);
    if (centered) {
        mean = sum_of_share(x, r, x_outer, x_inner, 0.0f, false, first, step);
        mean = (alone ? mean : sum_of_items(mean, shared)) / count;
    }
    float variance = sum_of_share(x, r, x_outer, x_inner, mean, true, first, step);
    variance = (alone ? variance : sum_of_items(variance, shared)) / count;
#else
    if (centered)
        mean = sum_of_share(x, r, x_outer, x_inner, 0.0f, false, 0, 1) / count;
    const float variance = sum_of_share(x, r, x_outer, x_inner, mean, true, 0, 1) / count;
#endif
    if (get_global_id(1) >= batch || get_global_id(2) >= groups)
        return;
    const float factor = 1.0f / sqrt(variance + epsilon);
    for (int v = get_global_id(0); v < r.outer * r.vectors; v += get_global_size(0)) {
        const int o = v / r.vectors, i = v % r.vectors * VECTOR, exist = r.inner - i;
        const floats scale = by_channel ? LOAD_VECTOR(s + i) : (floats)(LOAD(s + o));
        const floats shift = by_channel ? LOAD_VECTOR(t + i) : (floats)(LOAD(t + o));
        const floats part = load_strided(x + o * x_outer + i * x_inner, x_inner, exist) - mean;
        const floats value = part * factor * scale + shift;
        store_strided(ACTIVATE(value, act_a, act_b), y + o * y_outer + i * y_inner, y_inner, exist);
    }
}
