// Winograd's minimal filtering F(WINO x WINO, 3 x 3) for a 3x3 convolution of stride 1 (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks"; the matrices stand in runtime/layout/winograd.py): each tile of
// WINO x WINO outputs comes of ALPHA x ALPHA inputs, ALPHA = WINO + 2. Tile t = (n*tiles_h + row)*tiles_w + column.
#define ALPHA (WINO + 2)

// B' d of ALPHA values that lie `step` apart, in place.
void transform_input(floats *d, int step)
{
#if WINO == 2
    const floats d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    d[0] = d0 - d2;
    d[step] = d1 + d2;
    d[2 * step] = d2 - d1;
    d[3 * step] = d1 - d3;
#else
    const floats d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    d[0] = 4.0f * d0 - 5.0f * d2 + d4;
    d[step] = d3 + d4 - 4.0f * (d1 + d2);
    d[2 * step] = d4 - d3 + 4.0f * (d1 - d2);
    d[3 * step] = d4 - d2 + 2.0f * (d3 - d1);
    d[4 * step] = d4 - d2 - 2.0f * (d3 - d1);
    d[5 * step] = 4.0f * d1 - 5.0f * d3 + d5;
#endif
}

// A' m of ALPHA values that lie `step` apart, into the first WINO of them.
void transform_output(floats *m, int step)
{
    const floats sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
#if WINO == 2
    m[0] += sum;
    m[step] = difference - m[3 * step];
#else
    const floats sum2 = m[3 * step] + m[4 * step], difference2 = m[3 * step] - m[4 * step];
    m[0] += sum + sum2;
    m[step] = difference + 2.0f * difference2;
    m[2 * step] = sum + 4.0f * sum2;
    m[3 * step] = difference + 8.0f * difference2 + m[5 * step];
#endif
}

// v[a][t][c] = element a (of ALPHA*ALPHA, row-major) of B' d B, d the inputs of tile t, channel c.
// One work item transforms VECTOR channels of a tile: ids (channel / VECTOR, tile).
kernel void winograd_input(global const storage *x, int x_offset, int x_stride, global storage *v, int v_offset,
                           int batch, int in_h, int in_w, int in_c, int tiles_h, int tiles_w, int pad_t, int pad_l)
{
    const int block = get_global_id(0), tile = get_global_id(1), tiles = batch * tiles_h * tiles_w;
    if (block * VECTOR >= in_c || tile >= tiles)
        return;
    const int channel = block_start(block, in_c);
    const int top = tile / tiles_w % tiles_h * WINO - pad_t, left = tile % tiles_w * WINO - pad_l;
    const int image = tile / tiles_w / tiles_h * in_h;

    floats d[ALPHA * ALPHA];
    UNROLLED for (int i = 0; i < ALPHA; i++) {
        UNROLLED for (int j = 0; j < ALPHA; j++) {
            const int row = top + i, column = left + j;
            const bool inside = row >= 0 && row < in_h && column >= 0 && column < in_w;
            d[i * ALPHA + j] =
                inside ? LOAD_VECTOR(x + x_offset + ((image + row) * in_w + column) * x_stride + channel) : (floats)(0);
        }
    }
    UNROLLED for (int j = 0; j < ALPHA; j++)
        transform_input(d + j, ALPHA);
    UNROLLED for (int i = 0; i < ALPHA; i++) {
        transform_input(d + i * ALPHA, 1);
        UNROLLED for (int j = 0; j < ALPHA; j++)
            STORE_VECTOR(d[i * ALPHA + j], v + v_offset + ((i * ALPHA + j) * tiles + tile) * in_c + channel);
    }
}

// y = act(b + A' m A (+ residual)), m[a][t][o] the elements of tile t, channel o; outputs beyond the edge are dropped.
// One work item transforms VECTOR channels of a tile: ids (channel / VECTOR, tile).
kernel void winograd_output(global const storage *m, int m_offset, global const storage *b, int b_offset,
                            global const storage *residual, int residual_offset, int residual_stride,
                            global storage *y, int y_offset, int y_stride, int batch, int out_h, int out_w, int out_c,
                            int tiles_h, int tiles_w, float act_a, float act_b)
{
    const int block = get_global_id(0), tile = get_global_id(1), tiles = batch * tiles_h * tiles_w;
    if (block * VECTOR >= out_c || tile >= tiles)
        return;
    const int channel = block_start(block, out_c);
    const int top = tile / tiles_w % tiles_h * WINO, left = tile % tiles_w * WINO;
    const int image = tile / tiles_w / tiles_h * out_h;

    floats d[ALPHA * ALPHA];
    UNROLLED for (int j = 0; j < ALPHA; j++) {
        UNROLLED for (int i = 0; i < ALPHA; i++)
            d[i * ALPHA + j] = LOAD_VECTOR(m + m_offset + ((i * ALPHA + j) * tiles + tile) * out_c + channel);
        transform_output(d + j, ALPHA);
    }
    const floats bias = LOAD_VECTOR(b + b_offset + channel);
    UNROLLED for (int i = 0; i < WINO; i++) {
        transform_output(d + i * ALPHA, 1);
        UNROLLED for (int j = 0; j < WINO; j++) {
            if (top + i < out_h && left + j < out_w) {
                const int out = (image + top + i) * out_w + left + j;
                floats sum = d[i * ALPHA + j] + bias;
#if RESIDUAL
                sum += LOAD_VECTOR(residual + residual_offset + out * residual_stride + channel);
#endif
                STORE_VECTOR(ACTIVATE(sum, act_a, act_b), y + y_offset + out * y_stride + channel);
            }
        }
    }
}
