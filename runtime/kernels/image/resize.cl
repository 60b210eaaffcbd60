// Resizing of a channel-major image: an output index lies at index*scale + shift of the input.
// RESIZE=0 nearest, rounded by round_mode: 0 to nearest, halves down, 1 to nearest, halves up, 2 down, 3 up;
// 1 bilinear. One work item computes one pixel of a block: ids (block, w, n*out_h + h).

int nearest(float position, int size, int round_mode)
{
    const float rounded = round_mode == 0   ? ceil(position - 0.5f)
                          : round_mode == 1 ? floor(position + 0.5f)
                          : round_mode == 2 ? floor(position)
                                            : ceil(position);
    return clamp((int)rounded, 0, size - 1);
}

kernel void resize(read_only image2d_t x, write_only image2d_t y, int batch, int in_h, int in_w, int channels,
                   int out_h, int out_w, int round_mode, float scale_h, float scale_w, float shift_h, float shift_w)
{
    const int block = get_global_id(0), out_column = get_global_id(1), out_row = get_global_id(2);
    if (block >= blocks_of(channels) || out_column >= out_w || out_row >= batch * out_h)
        return;
    const int first_row = out_row / out_h * in_h;
    const float h = out_row % out_h * scale_h + shift_h, w = out_column * scale_w + shift_w;
#if RESIZE == 0
    const int row = first_row + nearest(h, in_h, round_mode);
    const float4 pixel = READ(x, block * in_w + nearest(w, in_w, round_mode), row);
#else
    const float inside_h = clamp(h, 0.0f, (float)(in_h - 1)), inside_w = clamp(w, 0.0f, (float)(in_w - 1));
    const int top = (int)inside_h, left = (int)inside_w;
    const int bottom = min(top + 1, in_h - 1), right = min(left + 1, in_w - 1);
    const float4 above = mix(READ(x, block * in_w + left, first_row + top),
                             READ(x, block * in_w + right, first_row + top), inside_w - left);
    const float4 below = mix(READ(x, block * in_w + left, first_row + bottom),
                             READ(x, block * in_w + right, first_row + bottom), inside_w - left);
    const float4 pixel = mix(above, below, inside_h - top);
#endif
    write_block(y, block, out_column, out_row, out_w, channels, pixel);
}
