// The products of Winograd's algorithm: m[a][t][o] = sum over c of v[a][t][c] * u[a][o][c] for each of `points`
// elements a.
// v [elements][tiles][in_c]; u [elements][ceil(out_c/PACK)][in_c][PACK], rows beyond out_c zero;
// m [elements][tiles][out_c].
// One work item computes PIXELS tiles x BLOCK channels: ids (tile / PIXELS, channel / BLOCK, element), the first
// two in ORDER.
kernel void winograd_gemm(global const storage *v, int v_offset, global const storage *u, int u_offset,
                          global storage *m, int m_offset, int points, int tiles, int in_c, int out_c)
{
    const int first = PIXEL_ID * PIXELS, channel = BLOCK_ID * BLOCK, element = get_global_id(2);
    if (element >= points || channel >= out_c || IS_IDLE(first, tiles))
        return;
    global const storage *pixel[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++)
        pixel[p] = v + v_offset + (element * tiles + min(first + p, tiles - 1)) * in_c;

    floats sum[PIXELS][VECTORS];
    clear_tile(sum);
    const int element_weights = (out_c + PACK - 1) / PACK * PACK * in_c;
    global const storage *weights = packed(u + u_offset + element * element_weights, channel, in_c);
#if LOCAL
    local reals stage[LOCAL * VECTORS];
    multiply_add_group(sum, pixel, weights, in_c, stage);
#else
    multiply_add_tile(sum, pixel, weights, in_c);
#endif

    write_tile(sum, v, 0, m + m_offset + (element * tiles + first) * out_c + channel, out_c, tiles - first,
               out_c - channel, -INFINITY, INFINITY);
}
