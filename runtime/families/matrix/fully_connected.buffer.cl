// Fully connected layer of a few rows: y[r][o] = act(b[o] + sum over c of x[r][c] * w[o][c]),
// the sum plus or times residual[r][o] before.
// x [rows][in_c]; w [ceil(out_c/PACK)][in_c][PACK], rows beyond out_c zero; b [out_c]; residual and y [rows][out_c].
// One work item computes BLOCK outputs of a row: ids (output / BLOCK, row).
kernel void fully_connected(global const storage *x, int x_offset, global const storage *w, int w_offset,
                            global const storage *b, int b_offset, global const storage *residual, int residual_offset,
                            global storage *y, int y_offset, int rows, int in_c, int out_c, float act_a, float act_b)
{
    const int channel = get_global_id(0) * BLOCK, row = get_global_id(1);
    if (channel >= out_c || row >= rows)
        return;
    global const storage *pixel[1] = {x + x_offset + row * in_c};

    floats sum[1][VECTORS];
    start_tile(sum, b + b_offset + channel);
    multiply_add_tile(sum, pixel, packed(w + w_offset, channel, in_c), in_c);

    const int place = row * out_c + channel;
    write_tile(sum, residual + residual_offset + place, 0, y + y_offset + place, 0, 1, out_c - channel, act_a, act_b);
}
