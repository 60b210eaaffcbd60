// Resizing of a channel-major image. One work item computes one pixel of a block: ids (block, w, n*out_h + h).

// Output (h, w) is the input pixel (rows[h], columns[w]).
kernel void resize_nearest(read_only image2d_t x, global const int *rows, int rows_offset, global const int *columns,
                           int columns_offset, write_only image2d_t y, int batch, int in_h, int in_w, int channels,
                           int out_h, int out_w)
{
    const int block = get_global_id(0), out_column = get_global_id(1), out_row = get_global_id(2);
    if (block >= blocks_of(channels) || out_column >= out_w || out_row >= batch * out_h)
        return;
    const int row = out_row / out_h * in_h + rows[rows_offset + out_row % out_h];
    const float4 pixel = READ(x, block * in_w + columns[columns_offset + out_column], row);
    write_block(y, block, out_column, out_row, out_w, channels, pixel);
}

// Output (h, w) lies at (h*scale_h + shift_h, w*scale_w + shift_w) of the input, between four pixels.
kernel void resize_bilinear(read_only image2d_t x, write_only image2d_t y, int batch, int in_h, int in_w, int channels,
                            int out_h, int out_w, float scale_h, float scale_w, float shift_h, float shift_w)
{
    const int block = get_global_id(0), out_column = get_global_id(1), out_row = get_global_id(2);
    if (block >= blocks_of(channels) || out_column >= out_w || out_row >= batch * out_h)
        return;
    const int first_row = out_row / out_h * in_h;
    const float h = out_row % out_h * scale_h + shift_h, w = out_column * scale_w + shift_w;
    const float inside_h = clamp(h, 0.0f, (float)(in_h - 1)), inside_w = clamp(w, 0.0f, (float)(in_w - 1));
    const int top = (int)inside_h, left = (int)inside_w;
    const int bottom = min(top + 1, in_h - 1), right = min(left + 1, in_w - 1);
    const float4 above = mix(READ(x, block * in_w + left, first_row + top),
                             READ(x, block * in_w + right, first_row + top), inside_w - left);
    const float4 below = mix(READ(x, block * in_w + left, first_row + bottom),
                             READ(x, block * in_w + right, first_row + bottom), inside_w - left);
    const float4 pixel = mix(above, below, inside_h - top);
    write_block(y, block, out_column, out_row, out_w, channels, pixel);
}
