// Fully connected layer of a few rows: y[r][o] = act(b[o] + sum over c of x[r][c] * w[o][c]),
// the sum plus or times residual[r][o] before.
// x [rows][in_c]; w [ceil(out_c/PACK)][in_c][PACK], or words (prelude.cl), rows beyond out_c zero; b [out_c]; residual and y [rows][out_c].
// One work item computes BLOCK outputs of a row: ids (output / BLOCK, row).
// LANES: the work items of a work group share them, each with its columns, and join their sums in local memory: ids
// (lane, output / BLOCK, row). Any number of lanes gives the same. A GPU has more work items at hand than a row has
// outputs, and neighbours read neighbouring columns.
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

kernel void fully_connected(global const input_storage *x, int x_offset, global const packed_weights *w, int w_offset,
                            global const bias_storage *b, int b_offset, global const storage *residual, int residual_offset,
                            global output_storage *y, int y_offset, int rows, int in_c, int out_c, float act_a, float act_b)
{
    sums sum[1][VECTORS];
    floats result[1][VECTORS];
#ifdef LANES
    const int channel = get_global_id(1) * BLOCK, row = get_global_id(2);
    local sums shared[MOST_ITEMS * VECTORS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int first = alone ? 0 : get_local_id(0), step = alone ? 1 : get_local_size(0);
    const bool idle = channel >= out_c || row >= rows;
    global const input_storage *pixel[1] = {x + x_offset + row * in_c};
    global const packed_weights *weight = packed(w + w_offset, channel, in_c);
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
#if !defined(WEIGHT_BITS) || WEIGHT_GROUP
    UNROLLED for (int k = 0; k < VECTORS; k++)
        sum[0][k] += LOAD_N(VECTOR, b + b_offset + channel + k * VECTOR);
#endif
#else
    const int channel = get_global_id(0) * BLOCK, row = get_global_id(1);
    if (channel >= out_c || row >= rows)
        return;
    global const input_storage *pixel[1] = {x + x_offset + row * in_c};
    global const packed_weights *weight = packed(w + w_offset, channel, in_c);
    start_tile(sum, b + b_offset + channel);
    multiply_add_tile(sum, pixel, weight, in_c);
#endif
    end_tile(result, sum, weight, b + b_offset + channel, out_c);

    const int place = row * out_c + channel;
    write_tile(result, residual + residual_offset + place, 0, y + y_offset + place, 0, 1, out_c - channel, act_a, act_b);
}
