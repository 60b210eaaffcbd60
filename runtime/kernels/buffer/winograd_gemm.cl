// The products of Winograd's algorithm: m[a][t][o] = sum over c of v[a][t][c] * u[a][o][c] for each of `points`
// elements a.
// v [elements][tiles][in_c]; u [elements][ceil(out_c/BLOCK)][in_c][BLOCK], rows beyond out_c zero;
// m [elements][tiles][out_c].
// One work item computes PIXELS tiles x BLOCK channels: ids (tile / PIXELS, channel / BLOCK, element).
kernel void winograd_gemm(global const storage *v, int v_offset, global const storage *u, int u_offset,
                          global storage *m, int m_offset, int points, int tiles, int in_c, int out_c)
{
    const int first = get_global_id(0) * PIXELS, channel = get_global_id(1) * BLOCK, element = get_global_id(2);
    if (first >= tiles || channel >= out_c || element >= points)
        return;
    global const storage *pixel[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++)
        pixel[p] = v + v_offset + (element * tiles + min(first + p, tiles - 1)) * in_c;

    reals sum[PIXELS][VECTORS];
    clear_tile(sum);
    const int blocks = (out_c + BLOCK - 1) / BLOCK;
    multiply_add_tile(sum, pixel, u + u_offset + (element * blocks * BLOCK + channel) * in_c, in_c);

    UNROLLED for (int p = 0; p < PIXELS; p++)
        if (first + p < tiles)
            write_row(sum[p], v, m + m_offset + (element * tiles + first + p) * out_c + channel, out_c - channel,
                      -INFINITY, INFINITY);
}
