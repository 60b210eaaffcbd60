// Element-wise functions of two channel-major images, y = activation(a BINARY b), with NumPy's broadcasting: each extent
// of an operand is the output's or 1. BINARY: a+b, a-b, a*b, a/b, maximum, minimum, a^b, a < 0 ? a*b : a.
// One work item computes one pixel of a block: ids (block, w, n*height + h).

// The operand's pixel at (n, h, w) of a block; along an extent of 1 its only one.
float4 operand(read_only image2d_t image, int n, int h, int w, int block, int batch, int height, int width, int channels)
{
    const int row = (batch == 1 ? 0 : n) * height + (height == 1 ? 0 : h);
    const float4 pixel = READ(image, (channels == 1 ? 0 : block) * width + (width == 1 ? 0 : w), row);
    return channels == 1 ? (float4)(pixel.x) : pixel;
}

kernel void binary(read_only image2d_t a, read_only image2d_t b, write_only image2d_t y, int batch, int channels,
                   int height, int width, int a_batch, int a_channels, int a_height, int a_width, int b_batch,
                   int b_channels, int b_height, int b_width, float act_a, float act_b)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    const int n = row / height, h = row % height;
    const float4 left = operand(a, n, h, w, block, a_batch, a_height, a_width, a_channels);
    const float4 right = operand(b, n, h, w, block, b_batch, b_height, b_width, b_channels);
    const float4 value = APPLY_BINARY(left, right);
    write_block(y, block, w, row, width, channels, ACTIVATE(value, act_a, act_b));
}
