// Transposed convolution of a channel-major image, gathered: y = activation(sum + bias (+ residual)).
// Output row r receives input row i through filter row k where r + pad_t = i * stride_h + k * dil_h; columns alike. So
// the outputs of one *phase*, whose columns leave the same remainder by the stride, are reached by the same taps, of
// which filter columns are step_w = stride_w / gcd(stride_w, dil_w) apart; rows alike. A work item computes PIXELS
// outputs of one phase in a row and visits those taps alone. Filters lie in the order of the phases' taps (classes by
// step), as one row of taps. Pads may be negative: outputs that no tap reaches get the bias.

// The first tap that reaches outputs at `at` (output + pad), or `step` where none does.
int first_tap(int at, int stride, int dil, int step)
{
    int tap = 0;
    while (tap < step && (at - tap * dil) % stride != 0)
        tap++;
    return tap;
}

// Taps of an axis in one class, and in all classes before it.
int taps_of(int first, int kernel_size, int step)
{
    return first < step && first < kernel_size ? (kernel_size - first + step - 1) / step : 0;
}

int taps_before(int first, int kernel_size, int step)
{
    return kernel_size / step * first + min(kernel_size % step, first);
}

// y = activation(sum (+ residual)) for those of PIXELS outputs, `stride` apart, that exist.
INLINED void write_phase(float4 sum[BLOCKS][PIXELS], read_only image2d_t residual, write_only image2d_t y,
                         int first_block, int first_w, int stride, int row, int width, int channels, float act_a,
                         float act_b)
{
    UNROLLED for (int i = 0; i < BLOCKS; i++) {
        UNROLLED for (int p = 0; p < PIXELS; p++) {
            const int block = first_block + i, w = first_w + p * stride;
            if (block < blocks_of(channels) && w < width) {
                float4 pixel = sum[i][p];
#if RESIDUAL
                pixel += READ(residual, block * width + w, row);
#endif
                write_block(y, block, w, row, width, channels, ACTIVATE(pixel, act_a, act_b));
            }
        }
    }
}

// w has the conv-filter layout, as in conv2d; in_c and out_c are a group's; with several groups both must be multiples
// of four, and BLOCKS divide out_c/4. Without a residual any image may stand there.
// One work item computes PIXELS pixels x BLOCKS blocks: ids (block/BLOCKS, column phase * tiles + tile, n*out_h + h).
kernel void deconv2d(read_only image2d_t x, read_only image2d_t w, read_only image2d_t b, read_only image2d_t residual,
                     write_only image2d_t y, int batch, int in_h, int in_w, int in_c, int out_h, int out_w, int out_c,
                     int k_h, int k_w, int stride_h, int stride_w, int pad_t, int pad_l, int dil_h, int dil_w,
                     int step_h, int step_w, int groups, float act_a, float act_b)
{
    const int tiles = ((out_w + stride_w - 1) / stride_w + PIXELS - 1) / PIXELS;
    const int out_block = get_global_id(0) * BLOCKS, out_row = get_global_id(2);
    const int phase = get_global_id(1) / tiles, first = get_global_id(1) % tiles * PIXELS;
    if (out_block >= groups * blocks_of(out_c) || phase >= stride_w || out_row >= batch * out_h)
        return;
    const int in_blocks = blocks_of(in_c), group_block = out_block / blocks_of(out_c) * in_blocks;
    const int at_h = out_row % out_h + pad_t, at_w = phase + pad_l;
    const int first_h = first_tap(at_h, stride_h, dil_h, step_h), taps_h = taps_of(first_h, k_h, step_h);
    const int first_w = first_tap(at_w, stride_w, dil_w, step_w), taps_w = taps_of(first_w, k_w, step_w);
    const int top = (at_h - first_h * dil_h) / stride_h, left = (at_w - first_w * dil_w) / stride_w + first;
    const int before = k_w * taps_before(first_h, k_h, step_h) + taps_h * taps_before(first_w, k_w, step_w);
    const int up = dil_h * step_h / stride_h, back = dil_w * step_w / stride_w;

    TILE(sum);
    start_tile(sum, b, out_block);
    for (int in_block = 0; in_block < in_blocks; in_block++) {
        for (int i = 0; i < taps_h; i++) {
            const int row = top - i * up;
            if (row < 0 || row >= in_h)
                continue;
            for (int j = 0; j < taps_w; j++) {
                real4 pixel[PIXELS];
                UNROLLED for (int p = 0; p < PIXELS; p++)
                    pixel[p] = READ_REAL(x, column_of(group_block + in_block, left + p - j * back, in_w),
                                         out_row / out_h * in_h + row);
                const int tap = before + i * taps_w + j;
                multiply_add_tile(PART(sum), pixel, w, in_block * 4, out_block * k_h * k_w + tap, k_h * k_w);
                ADDED(sum, 4);
            }
        }
    }
    END_TILE(sum);
    write_phase(sum, residual, y, out_block, first * stride_w + phase, stride_w, out_row, out_w, groups * out_c, act_a,
                act_b);
}

// Each channel with its own filter; w has the depthwise-filter layout.
// One work item computes PIXELS pixels of a block: ids (block, column phase * tiles + tile, n*out_h + h).
kernel void deconv_depthwise(read_only image2d_t x, read_only image2d_t w, read_only image2d_t b,
                             read_only image2d_t residual, write_only image2d_t y, int batch, int in_h, int in_w,
                             int channels, int out_h, int out_w, int k_h, int k_w, int stride_h, int stride_w,
                             int pad_t, int pad_l, int dil_h, int dil_w, int step_h, int step_w, float act_a,
                             float act_b)
{
    const int tiles = ((out_w + stride_w - 1) / stride_w + PIXELS - 1) / PIXELS;
    const int block = get_global_id(0), out_row = get_global_id(2);
    const int phase = get_global_id(1) / tiles, first = get_global_id(1) % tiles * PIXELS;
    if (block >= blocks_of(channels) || phase >= stride_w || out_row >= batch * out_h)
        return;
    const int at_h = out_row % out_h + pad_t, at_w = phase + pad_l;
    const int first_h = first_tap(at_h, stride_h, dil_h, step_h), taps_h = taps_of(first_h, k_h, step_h);
    const int first_w = first_tap(at_w, stride_w, dil_w, step_w), taps_w = taps_of(first_w, k_w, step_w);
    const int top = (at_h - first_h * dil_h) / stride_h, left = (at_w - first_w * dil_w) / stride_w + first;
    const int before = k_w * taps_before(first_h, k_h, step_h) + taps_h * taps_before(first_w, k_w, step_w);
    const int up = dil_h * step_h / stride_h, back = dil_w * step_w / stride_w;

    TILE(sum);
    start_tile(sum, b, block);
    for (int i = 0; i < taps_h; i++) {
        const int row = top - i * up;
        if (row < 0 || row >= in_h)
            continue;
        for (int j = 0; j < taps_w; j++) {
            const real4 weight = READ_REAL(w, before + i * taps_w + j, block);
            UNROLLED for (int p = 0; p < PIXELS; p++) {
                const int column = column_of(block, left + p - j * back, in_w);
                const real4 pixel = READ_REAL(x, column, out_row / out_h * in_h + row);
                PART(sum)[0][p] = MULTIPLY_ADD(pixel, weight, PART(sum)[0][p]);
            }
            ADDED(sum, 1);
        }
    }
    END_TILE(sum);
    write_phase(sum, residual, y, block, first * stride_w + phase, stride_w, out_row, out_w, channels, act_a, act_b);
}
