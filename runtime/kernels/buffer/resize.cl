// Resize of height and width: output (h, w) is the input at (h*scale_h + shift_h, w*scale_w + shift_w), taken from the
// nearest pixel (RESIZE 0) or interpolated between four (RESIZE 1); coordinates outside are drawn to the edge.
// round_mode: 0 half down, 1 half up, 2 floor, 3 ceil.
// One work item computes VECTOR channels of a pixel: ids (channel / VECTOR, column, batch * row).
int nearest(float coordinate, int round_mode, int size)
{
    const float rounded = round_mode == 0   ? ceil(coordinate - 0.5f)
                          : round_mode == 1 ? floor(coordinate + 0.5f)
                          : round_mode == 2 ? floor(coordinate)
                                            : ceil(coordinate);
    return clamp((int)rounded, 0, size - 1);
}

kernel void resize(global const storage *x, int x_offset, int x_stride, global storage *y, int y_offset, int y_stride,
                   int batch, int in_h, int in_w, int channels, int out_h, int out_w, int round_mode, float scale_h,
                   float scale_w, float shift_h, float shift_w)
{
    const int channel = get_global_id(0) * VECTOR, column = get_global_id(1), row = get_global_id(2);
    if (channel >= channels || column >= out_w || row >= batch * out_h)
        return;
    const int exist = channels - channel, image = row / out_h * in_h;
    const float in_row = row % out_h * scale_h + shift_h, in_column = column * scale_w + shift_w;
    x += x_offset + channel;
#if RESIZE == 0
    const int nearest_row = nearest(in_row, round_mode, in_h), nearest_column = nearest(in_column, round_mode, in_w);
    const floats v = load_some(x + ((image + nearest_row) * in_w + nearest_column) * x_stride, exist);
#else
    const float h = clamp(in_row, 0.0f, in_h - 1.0f), w = clamp(in_column, 0.0f, in_w - 1.0f);
    const int top = h, left = w, bottom = min(top + 1, in_h - 1), right = min(left + 1, in_w - 1);
    const floats top_left = load_some(x + ((image + top) * in_w + left) * x_stride, exist);
    const floats top_right = load_some(x + ((image + top) * in_w + right) * x_stride, exist);
    const floats bottom_left = load_some(x + ((image + bottom) * in_w + left) * x_stride, exist);
    const floats bottom_right = load_some(x + ((image + bottom) * in_w + right) * x_stride, exist);
    const floats above = top_left + (top_right - top_left) * (w - left);
    const floats below = bottom_left + (bottom_right - bottom_left) * (w - left);
    const floats v = above + (below - above) * (h - top);
#endif
    store_some(v, y + y_offset + (row * out_w + column) * y_stride + channel, exist);
}
