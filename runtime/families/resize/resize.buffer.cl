// Resize of height and width. One work item computes VECTOR channels of a pixel: ids (channel / VECTOR, column,
// batch * row).

// Output (h, w) is the input pixel (rows[h], columns[w]).
IN_VECTORS
kernel void resize_nearest(global const storage *x, int x_offset, int x_stride, global const int *rows, int rows_offset,
                           global const int *columns, int columns_offset, global storage *y, int y_offset, int y_stride,
                           int batch, int in_h, int in_w, int channels, int out_h, int out_w)
{
    const int channel = get_global_id(0) * VECTOR, column = get_global_id(1), row = get_global_id(2);
    if (channel >= channels || column >= out_w || row >= batch * out_h)
        return;
    const int exist = channels - channel;
    const int in_row = row / out_h * in_h + rows[rows_offset + row % out_h];
    const int in_column = columns[columns_offset + column];
    const floats v = load_some(x + x_offset + (in_row * in_w + in_column) * x_stride + channel, exist);
    store_some(v, y + y_offset + (row * out_w + column) * y_stride + channel, exist);
}

// Output (h, w) lies at (h*scale_h + shift_h, w*scale_w + shift_w) of the input, between four pixels; coordinates
// outside are drawn to the edge.
IN_VECTORS
kernel void resize_bilinear(global const storage *x, int x_offset, int x_stride, global storage *y, int y_offset,
                            int y_stride, int batch, int in_h, int in_w, int channels, int out_h, int out_w,
                            float scale_h, float scale_w, float shift_h, float shift_w)
{
    const int channel = get_global_id(0) * VECTOR, column = get_global_id(1), row = get_global_id(2);
    if (channel >= channels || column >= out_w || row >= batch * out_h)
        return;
    const int exist = channels - channel, image = row / out_h * in_h;
    const float in_row = row % out_h * scale_h + shift_h, in_column = column * scale_w + shift_w;
    x += x_offset + channel;
    const float h = clamp(in_row, 0.0f, in_h - 1.0f), w = clamp(in_column, 0.0f, in_w - 1.0f);
    const int top = h, left = w, bottom = min(top + 1, in_h - 1), right = min(left + 1, in_w - 1);
    const floats top_left = load_some(x + ((image + top) * in_w + left) * x_stride, exist);
    const floats top_right = load_some(x + ((image + top) * in_w + right) * x_stride, exist);
    const floats bottom_left = load_some(x + ((image + bottom) * in_w + left) * x_stride, exist);
    const floats bottom_right = load_some(x + ((image + bottom) * in_w + right) * x_stride, exist);
    const floats above = top_left + (top_right - top_left) * (w - left);
    const floats below = bottom_left + (bottom_right - bottom_left) * (w - left);
    const floats v = above + (below - above) * (h - top);
    store_some(v, y + y_offset + (row * out_w + column) * y_stride + channel, exist);
}
