// Winograd convolution F(WINO x WINO, 3 x 3), WINO = 2 or 4: a tile of ALPHA x ALPHA inputs gives WINO x WINO outputs.
// The transformed tensors are height-major images [ALPHA*ALPHA, channels, tiles, 1]: channels 4*block .. 4*block+3 of
// point a are the pixel at column t of row a*blocks + block, tile t = (n*tiles_h + tile_h)*tiles_w + tile_w.
// The points are those of runtime/layout/winograd.py, written out.

#if WINO == 2
#define ALPHA 4
#else
#define ALPHA 6
#endif

// B' d for a column (or row) d of the input tile, in place.
INLINED void transform_input(float4 d[ALPHA])
{
#if WINO == 2
    const float4 first = d[0] - d[2], second = d[1] + d[2], third = d[2] - d[1], fourth = d[1] - d[3];
    d[0] = first;
    d[1] = second;
    d[2] = third;
    d[3] = fourth;
#else
    const float4 first = 4.0f * d[0] - 5.0f * d[2] + d[4], last = 4.0f * d[1] - 5.0f * d[3] + d[5];
    const float4 even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
    const float4 even_twice = d[4] - d[2], odd_twice = 2.0f * (d[3] - d[1]);
    d[0] = first;
    d[1] = even + odd;
    d[2] = even - odd;
    d[3] = even_twice + odd_twice;
    d[4] = even_twice - odd_twice;
    d[5] = last;
#endif
}

// A' m for a column (or row) m of the product: WINO of ALPHA values, in place.
INLINED void transform_output(float4 m[ALPHA])
{
#if WINO == 2
    const float4 first = m[0] + m[1] + m[2], second = m[1] - m[2] - m[3];
    m[0] = first;
    m[1] = second;
#else
    const float4 sum = m[1] + m[2], difference = m[1] - m[2];
    const float4 sum_twice = m[3] + m[4], difference_twice = m[3] - m[4];
    m[0] = m[0] + sum + sum_twice;
    m[1] = difference + 2.0f * difference_twice;
    m[2] = sum + 4.0f * sum_twice;
    m[3] = difference + 8.0f * difference_twice + m[5];
#endif
}

// V = B' d B of every tile. One work item transforms a tile of one block: ids (block, tile_w, n*tiles_h + tile_h).
kernel void winograd_input(read_only image2d_t x, write_only image2d_t v, int batch, int in_h, int in_w, int in_c,
                           int tiles_h, int tiles_w, int pad_t, int pad_l)
{
    const int block = get_global_id(0), tile_w = get_global_id(1), tile_row = get_global_id(2);
    if (block >= blocks_of(in_c) || tile_w >= tiles_w || tile_row >= batch * tiles_h)
        return;
    const int first_h = tile_row % tiles_h * WINO - pad_t, first_w = tile_w * WINO - pad_l;
    float4 tile[ALPHA][ALPHA]; // [column][row], as the first transform needs it
    UNROLLED for (int j = 0; j < ALPHA; j++) {
        const int column = column_of(block, first_w + j, in_w);
        UNROLLED for (int i = 0; i < ALPHA; i++) {
            const int h = first_h + i;
            tile[j][i] = READ(x, h >= 0 && h < in_h ? column : OUTSIDE, tile_row / tiles_h * in_h + h);
        }
        transform_input(tile[j]);
    }
    UNROLLED for (int i = 0; i < ALPHA; i++) {
        float4 row[ALPHA];
        UNROLLED for (int j = 0; j < ALPHA; j++)
            row[j] = tile[j][i];
        transform_input(row);
        UNROLLED for (int j = 0; j < ALPHA; j++)
            write_imagef(v, (int2)(tile_row * tiles_w + tile_w, (i * ALPHA + j) * blocks_of(in_c) + block), row[j]);
    }
}

// y = activation(A' m A + bias (+ residual)). One work item computes the outputs of a tile of one block: ids
// (block, tile_w, n*tiles_h + tile_h).
kernel void winograd_output(read_only image2d_t m, read_only image2d_t b, read_only image2d_t residual,
                            write_only image2d_t y, int batch, int out_h, int out_w, int out_c, int tiles_h, int tiles_w,
                            float act_a, float act_b)
{
    const int block = get_global_id(0), tile_w = get_global_id(1), tile_row = get_global_id(2);
    if (block >= blocks_of(out_c) || tile_w >= tiles_w || tile_row >= batch * tiles_h)
        return;
    const int first_h = tile_row % tiles_h * WINO, first_w = tile_w * WINO;
    float4 tile[ALPHA][ALPHA]; // [column][row]
    UNROLLED for (int j = 0; j < ALPHA; j++) {
        UNROLLED for (int i = 0; i < ALPHA; i++)
            tile[j][i] = READ(m, tile_row * tiles_w + tile_w, (i * ALPHA + j) * blocks_of(out_c) + block);
        transform_output(tile[j]);
    }
    const float4 bias = READ(b, block, 0);
    UNROLLED for (int i = 0; i < WINO; i++) {
        float4 row[ALPHA];
        UNROLLED for (int j = 0; j < ALPHA; j++)
            row[j] = tile[j][i];
        transform_output(row);
        UNROLLED for (int j = 0; j < WINO; j++) {
            const int h = first_h + i, w = first_w + j, out_row = tile_row / tiles_h * out_h + h;
            if (h >= out_h || w >= out_w)
                continue;
            float4 pixel = row[j] + bias;
#if RESIDUAL
            pixel += READ(residual, block * out_w + w, out_row);
#endif
            write_block(y, block, w, out_row, out_w, out_c, ACTIVATE(pixel, act_a, act_b));
        }
    }
}
