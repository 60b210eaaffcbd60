// y[i] = scale * x[i]^3. One work item computes VECTOR elements.
kernel void cube(global const storage *x, int x_offset, global storage *y, int y_offset, int count, float scale)
{
    const int first = get_global_id(0) * VECTOR;
    if (first >= count)
        return;
    const floats v = load_some(x + x_offset + first, count - first);
    store_some(v * v * v * scale, y + y_offset + first, count - first);
}
