// Fully connected layer of a channel-major image: y[n, o] = activation(sum over c, h, w of x * weights + b[o]).
// w is the channel-major image of the weights as [out_c, in_c, 1, in_h*in_w]: the four input channels of a block at
// filter tap t for output o are the pixel at column block*in_h*in_w + t of row o. y has one pixel an image and block.
// One work item computes four output channels: ids (block, 0, n).

// Ends a run of products, in float too: each add comes after reading 4 * RUN weights, and costs next to nothing.
INLINED void add_parts(float4 sum[4], real4 part[4])
{
    UNROLLED for (int o = 0; o < 4; o++) {
        sum[o] += TO_FLOAT4(part[o]);
        part[o] = (real4)(0);
    }
}

kernel void fully_connected(read_only image2d_t x, read_only image2d_t w, read_only image2d_t b, write_only image2d_t y,
                            int batch, int in_h, int in_w, int in_c, int out_c, float act_a, float act_b)
{
    const int block = get_global_id(0), n = get_global_id(2);
    if (block >= blocks_of(out_c) || get_global_id(1) > 0 || n >= batch)
        return;
    float4 sum[4];
    real4 part[4];
    UNROLLED for (int o = 0; o < 4; o++) {
        sum[o] = (float4)(0);
        part[o] = (real4)(0);
    }
    const int out_channel = block * 4;
    int length = 0;
    for (int in_block = 0; in_block < blocks_of(in_c); in_block++) {
        for (int h = 0; h < in_h; h++) {
            for (int column = 0; column < in_w; column++) {
                const real4 pixel = READ_REAL(x, in_block * in_w + column, n * in_h + h);
                const int tap = (in_block * in_h + h) * in_w + column;
                UNROLLED for (int o = 0; o < 4; o++)
                    part[o] = MULTIPLY_ADD(pixel, READ_WEIGHTS(w, tap, out_channel + o), part[o]);
                if (++length == RUN) {
                    add_parts(sum, part);
                    length = 0;
                }
            }
        }
    }
    add_parts(sum, part);
    float total[4];
    UNROLLED for (int o = 0; o < 4; o++)
        total[o] = sum[o].x + sum[o].y + sum[o].z + sum[o].w;
    float4 pixel = VECTOR_OF(total);
#ifdef WEIGHT_BITS
    pixel *= READ_SCALE(b, block, out_c);
#endif
    pixel += READ(b, block, 0);
    write_block(y, block, 0, n, 1, out_c, ACTIVATE(pixel, act_a, act_b));
}
