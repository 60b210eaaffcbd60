// Scale and shift of each channel: y[p][c] = act(x[p][c] * s[c] + t[c]).
// One work item computes VECTOR channels of ITEMS pixels: ids (channel / VECTOR, pixel / ITEMS).
kernel void scale_shift(global const storage *x, int x_offset, int x_stride, global const storage *s, int s_offset,
                        global const storage *t, int t_offset, global storage *y, int y_offset, int y_stride,
                        int pixels, int channels, float act_a, float act_b)
{
    const int channel = get_global_id(0) * VECTOR, first = get_global_id(1) * ITEMS;
    if (channel >= channels || first >= pixels)
        return;
    const int exist = channels - channel, end = min(first + ITEMS, pixels);
    const floats scale = LOAD_VECTOR(s + s_offset + channel), shift = LOAD_VECTOR(t + t_offset + channel);
    for (int pixel = first; pixel < end; pixel++) {
        const floats v = load_some(x + x_offset + pixel * x_stride + channel, exist) * scale + shift;
        store_some(ACTIVATE(v, act_a, act_b), y + y_offset + pixel * y_stride + channel, exist);
    }
}
