// The products of a Winograd convolution: M[a][o][t] = sum over c of U[a][o][c] * V[a][c][t] for every point a of the
// transformed tile. v and m are height-major images (winograd.cl), u the transformed filters in the conv-filter layout, as
// a filter of `points` taps. One work item computes PIXELS tiles x BLOCKS blocks: ids (block/BLOCKS, tile/PIXELS, a).

kernel void winograd_gemm(read_only image2d_t v, read_only image2d_t u, write_only image2d_t m, int points, int tiles,
                          int in_c, int out_c)
{
    const int first_block = get_global_id(0) * BLOCKS, first_tile = get_global_id(1) * PIXELS, a = get_global_id(2);
    if (first_block >= blocks_of(out_c) || first_tile >= tiles || a >= points)
        return;
    TILE(sum);
    UNROLLED for (int block = 0; block < BLOCKS; block++)
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[block][p] = (float4)(0);
    for (int in_block = 0; in_block < blocks_of(in_c); in_block++) {
        // Columns beyond the last tile have no meaning: what comes of them is not written.
        real4 pixel[PIXELS];
        UNROLLED for (int p = 0; p < PIXELS; p++)
            pixel[p] = READ_REAL(v, first_tile + p, a * blocks_of(in_c) + in_block);
        multiply_add_tile(PART(sum), pixel, u, in_block * 4, first_block * points + a, points);
        ADDED(sum, 4);
    }
    END_TILE(sum);
    UNROLLED for (int i = 0; i < BLOCKS; i++)
        UNROLLED for (int p = 0; p < PIXELS; p++)
            if (first_block + i < blocks_of(out_c) && first_tile + p < tiles)
                write_imagef(m, (int2)(first_tile + p, a * blocks_of(out_c) + first_block + i), sum[i][p]);
}
