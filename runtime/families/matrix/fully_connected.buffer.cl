// Fully connected layer of a few rows: y[r][o] = act(b[o] + sum over c of x[r][c] * w[o][c]),
// the sum plus or times residual[r][o] before.
// x [rows][in_c]; w [ceil(out_c/PACK)][in_c][PACK], or words (prelude.cl), rows beyond out_c zero; b [out_c]; residual and y [rows][out_c].
// One work item computes BLOCK outputs of a row: ids (output / BLOCK, row).
// LANES: the work items of a work group share them, each with its columns, and join their sums in local memory: ids
// (lane, output / BLOCK, row). Any number of lanes gives the same. A GPU has more work items at hand than a row has
// outputs, and neighbours read neighbouring columns.
// ROW_EPSILON, the bits of a float: x counts as divided by sqrt(mean of its row's squares + that), which each work item
// finds for itself; of weights in floats.
// GATED: w and b have the rows of two layers, one behind the other: y = act(first layer) * second layer, without residual.
#ifdef ROW_EPSILON
INLINED float inverse_deviation(global const input_storage *row, int columns)
{
    lanes squares;
    squares.vector = 0.0f;
    int c = 0;
    for (; c + VECTOR <= columns; c += VECTOR) {
        const floats v = LOAD_VECTOR(row + c);
        squares.vector = MULTIPLY_ADD(v, v, squares.vector);
    }
    float sum = 0.0f;
    UNROLLED for (int i = 0; i < VECTOR; i++)
        sum += squares.element[i];
    for (; c < columns; c++)
        sum += LOAD(row + c) * LOAD(row + c);
    return 1.0f / sqrt(sum / columns + as_float(ROW_EPSILON));
}
#endif

#ifdef LANES
#define MOST_ITEMS 256

// Sum over the work items that share a block, for the first of them, which alone needs it: in halves, so that each step
// has half as many sums to add. Every work item of the work group must come here.
INLINED void join_lanes(sums sum[1][VECTORS], local sums *shared)
{
    const int lane = get_local_id(0);
    local sums *own = shared + (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) * VECTORS;
    UNROLLED for (int k = 0; k < VECTORS; k++)
        own[lane * VECTORS + k] = sum[0][k];
    for (int left = get_local_size(0), half_left; left > 1; left = half_left) {
        half_left = (left + 1) / 2;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane + half_left < left)
            UNROLLED for (int k = 0; k < VECTORS; k++)
                own[lane * VECTORS + k] += own[(lane + half_left) * VECTORS + k];
    }
    UNROLLED for (int k = 0; k < VECTORS; k++)
        sum[0][k] = own[lane * VECTORS + k];
}
#endif

// A block of a layer's outputs before what follows it; in a work group of LANES only the first item's are right, and
// every one must come here, those that are `idle` too.
#ifdef LANES
INLINED void multiply_block(floats result[1][VECTORS], global const input_storage *const pixel[1],
                            global const packed_weights *weight, global const bias_storage *bias, int in_c, int out_c,
                            bool idle, local sums *shared)
{
    sums sum[1][VECTORS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int first = alone ? 0 : get_local_id(0), step = alone ? 1 : get_local_size(0);
    clear_tile(sum);
#ifdef WEIGHT_BITS
    for (int c = first * 4; c < in_c && !idle; c += step * 4) {
        UNROLLED for (int k = 0; k < VECTORS; k++) {
            const ints four = load_four(weight + k * VECTOR, c);
#if WHOLE_SUMS
            sum[0][k] = add_dots(sum[0][k], four, as_uint(LOAD_BYTE_N(4, pixel[0] + c)));
#else
            const floats scale = WEIGHT_GROUP ? load_scale(weight + k * VECTOR, c) : 1;
            UNROLLED for (int i = 0; i < 4; i++)
                sum[0][k] += LOAD(pixel[0] + c + i) * TO_FLOAT_N(VECTOR, weight_of(four, i, scale));
#endif
        }
    }
#else
    for (int c = first; c < in_c && !idle; c += step)
        UNROLLED for (int k = 0; k < VECTORS; k++)
            sum[0][k] += LOAD(pixel[0] + c) * LOAD_N(VECTOR, weight + c * PACK + k * VECTOR);
#endif
    if (!alone)
        join_lanes(sum, shared);
    if (idle || get_local_id(0) > 0)
        return;
#ifdef ROW_EPSILON
    const float factor = inverse_deviation(pixel[0], in_c);
    UNROLLED for (int k = 0; k < VECTORS; k++)
        sum[0][k] *= factor;
#endif
#if !defined(WEIGHT_BITS) || WEIGHT_GROUP
    UNROLLED for (int k = 0; k < VECTORS; k++)
        sum[0][k] += LOAD_N(VECTOR, bias + k * VECTOR);
#endif
    end_tile(result, sum, weight, bias, out_c);
}
#define MULTIPLY_BLOCK(result, weight, bias) multiply_block(result, pixel, weight, bias, in_c, out_c, idle, shared)
#else
// sum += the products of a row. The sums of a CPU's narrow block are two each, of even columns and of odd ones, since a
// sum that waits for the one before it takes longer than a second cache to send its weights.
INLINED void multiply_add_row(sums sum[1][VECTORS], global const input_storage *const pixel[1],
                              global const packed_weights *weight, int in_c)
{
#if VECTOR >= 8 && VECTORS <= 2 && PRECISION != 2 && !defined(WEIGHT_BITS)
    sums odd[1][VECTORS];
    clear_tile(odd);
    int c = 0;
    for (; c + 2 <= in_c; c += 2) {
        multiply_add_columns(sum, pixel, weight, c, c + 1);
        multiply_add_columns(odd, pixel, weight, c + 1, c + 2);
    }
    multiply_add_columns(sum, pixel, weight, c, in_c);
    UNROLLED for (int k = 0; k < VECTORS; k++)
        sum[0][k] += odd[0][k];
#else
    multiply_add_tile(sum, pixel, weight, in_c);
#endif
}

INLINED void multiply_block(floats result[1][VECTORS], global const input_storage *const pixel[1],
                            global const packed_weights *weight, global const bias_storage *bias, int in_c, int out_c)
{
    sums sum[1][VECTORS];
#ifdef ROW_EPSILON
    const float factor = inverse_deviation(pixel[0], in_c);
    clear_tile(sum);
    multiply_add_row(sum, pixel, weight, in_c);
    UNROLLED for (int k = 0; k < VECTORS; k++)
        sum[0][k] = MULTIPLY_ADD(sum[0][k], (floats)(factor), LOAD_N(VECTOR, bias + k * VECTOR));
#else
    start_tile(sum, bias);
    multiply_add_row(sum, pixel, weight, in_c);
#endif
    end_tile(result, sum, weight, bias, out_c);
}
#define MULTIPLY_BLOCK(result, weight, bias) multiply_block(result, pixel, weight, bias, in_c, out_c)
#endif

kernel void fully_connected(global const input_storage *x, int x_offset, global const packed_weights *w, int w_offset,
                            global const bias_storage *b, int b_offset, global const storage *residual, int residual_offset,
                            global output_storage *y, int y_offset, int rows, int in_c, int out_c, float act_a, float act_b)
{
    floats result[1][VECTORS];
#ifdef LANES
    const int channel = get_global_id(1) * BLOCK, row = get_global_id(2);
    local sums shared[MOST_ITEMS * VECTORS];
    const bool idle = channel >= out_c || row >= rows;
#else
    const int channel = get_global_id(0) * BLOCK, row = get_global_id(1);
    if (channel >= out_c || row >= rows)
        return;
#endif
    global const input_storage *pixel[1] = {x + x_offset + row * in_c};
    global const packed_weights *weight = packed(w + w_offset, channel, in_c);
    b += b_offset + channel;
    MULTIPLY_BLOCK(result, weight, b);
#ifdef GATED
    floats factor[1][VECTORS];
#ifdef LANES
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    MULTIPLY_BLOCK(factor, weight + (out_c + PACK - 1) / PACK * PACK * ROW_WORDS(in_c), b + out_c);
#endif
#ifdef LANES
    if (idle || get_local_id(0) > 0)
        return;
#endif
    const int place = row * out_c + channel;
#ifdef GATED
    UNROLLED for (int k = 0; k < VECTORS; k++)
        if (channel + k * VECTOR < out_c)
            store_some(ACTIVATE(result[0][k], act_a, act_b) * factor[0][k], y + y_offset + place + k * VECTOR, out_c - channel - k * VECTOR);
#else
    write_tile(result, residual + residual_offset + place, 0, y + y_offset + place, 0, 1, out_c - channel, act_a, act_b);
#endif
}
