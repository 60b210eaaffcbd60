// Fully connected layer: y[r][o] = act(b[o] + sum over c of x[r][c] * w[o][c]).
// x [rows][in_c]; w [ceil(out_c/PACK)][in_c][PACK], rows beyond out_c zero; b [out_c]; y [rows][out_c].
// One work item computes PIXELS rows x BLOCK outputs: ids (output / BLOCK, row / PIXELS).
kernel void fully_connected(global const storage *x, int x_offset, global const storage *w, int w_offset,
                            global const storage *b, int b_offset, global storage *y, int y_offset, int rows, int in_c,
                            int out_c, float act_a, float act_b)
{
    const int channel = get_global_id(0) * BLOCK, first = get_global_id(1) * PIXELS;
    if (channel >= out_c || first >= rows)
        return;
    global const storage *pixel[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++)
        pixel[p] = x + x_offset + min(first + p, rows - 1) * in_c;

    floats sum[PIXELS][VECTORS];
    start_tile(sum, b + b_offset + channel);
    multiply_add_tile(sum, pixel, packed(w + w_offset, channel, in_c), in_c);

    write_tile(sum, x, 0, y + y_offset + first * out_c + channel, out_c, rows - first, out_c - channel, act_a, act_b);
}
