// Normalisation of a channel-major image: y = act((x - mean) / sqrt(variance + epsilon) * s[c] + t[c]).
// spatial 0: mean and variance are those of all channels of a pixel. spatial 1: those of each of `groups` groups of
// channels over height and width; a group is one channel, or a multiple of four. centered 0 takes 0 for the mean.
// LANES 1: a work item computes a pixel or a group. Else the work items of a work group share it, and add their sums in
// local memory. ids (lane, w, n*height + h), or (lane, group or block of channels, n).
#define MOST_ITEMS 512

// What is normalised together: blocks first_block .. first_block+blocks-1, and columns w .. of rows row ...
typedef struct {
    int first_block, blocks, w, columns, row, rows, width, channels;
} region;

int region_size(region r) { return r.blocks * r.columns * r.rows; }

int region_block(region r, int v) { return r.first_block + v / (r.columns * r.rows); }

int region_column(region r, int v) { return r.w + v % r.columns; }

int region_row(region r, int v) { return r.row + v / r.columns % r.rows; }

// Sum over the pixels first, first + step, ... of x - mean, or of its square, by component.
float4 sum_of_share(read_only image2d_t x, region r, float4 mean, bool squares, int first, int step)
{
    float4 sum = (float4)(0.0f);
    for (int v = first; v < region_size(r); v += step) {
        const int block = region_block(r, v);
        const float4 pixel = READ(x, block * r.width + region_column(r, v), region_row(r, v)) - mean;
        const float4 part = existing(pixel, (float4)(0.0f), block * 4, r.channels);
        sum += squares ? part * part : part;
    }
    return sum;
}

#if LANES > 1
float4 sum_of_items(float4 value, local float4 *shared) JOIN_LANES(float4, SUM)
#endif

kernel void normalization(read_only image2d_t x, read_only image2d_t s, read_only image2d_t t, write_only image2d_t y,
                          int batch, int channels, int height, int width, int groups, int spatial, int centered,
                          float epsilon, float act_a, float act_b)
{
    const int of_group = channels / groups;
    const bool by_channel = spatial && of_group == 1; // each component has a mean of its own
    const int units = spatial ? (by_channel ? blocks_of(channels) : groups) : width;
    const int outer = spatial ? batch : batch * height;
    const int unit = min((int)get_global_id(1), units - 1), o = min((int)get_global_id(2), outer - 1);
    const int blocks = by_channel ? 1 : blocks_of(of_group);
    const region of_image = {unit * blocks, blocks, 0, width, o * height, height, width, channels};
    const region of_pixel = {0, blocks, unit, 1, o, 1, width, channels};
    const region r = spatial ? of_image : of_pixel;
    const float count = (float)(of_group * r.columns * r.rows);
    float4 mean = (float4)(0.0f);
#if LANES > 1
    local float4 shared[MOST_ITEMS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int first = alone ? 0 : get_local_id(0), step = alone ? 1 : get_local_size(0);
#define TOTAL(value) (alone ? (value) : sum_of_items(value, shared))
#else
    const int first = 0, step = 1;
#define TOTAL(value) (value)
#endif
#define MEAN(sum) ((by_channel ? (sum) : (float4)((sum).x + (sum).y + (sum).z + (sum).w)) / count)
    if (centered) {
        const float4 sum = sum_of_share(x, r, mean, false, first, step);
        const float4 total = TOTAL(sum);
        mean = MEAN(total);
    }
    const float4 sum = sum_of_share(x, r, mean, true, first, step);
    const float4 total = TOTAL(sum);
    const float4 factor = 1.0f / sqrt(MEAN(total) + epsilon);
    if (get_global_id(1) >= units || get_global_id(2) >= outer)
        return;
    for (int v = get_global_id(0); v < region_size(r); v += get_global_size(0)) {
        const int block = region_block(r, v), w = region_column(r, v), row = region_row(r, v);
        const float4 part = (READ(x, block * width + w, row) - mean) * factor;
        const float4 value = part * READ(s, block, 0) + READ(t, block, 0);
        write_block(y, block, w, row, width, channels, ACTIVATE(value, act_a, act_b));
    }
}
