kernel void take(global const storage *x, int x_offset, global const int *rows, int rows_offset,
                 global const storage *bias, int bias_offset, global storage *y, int y_offset, int count, int length)
{
    const int i = get_global_id(0), row = get_global_id(1);
    if (i >= length || row >= count)
        return;
    float v = LOAD(x + x_offset + rows[rows_offset + row] * length + i);
#if HAS_BIAS
    v += LOAD(bias + bias_offset + i);
#endif
    STORE(v, y + y_offset + row * length + i);
}
