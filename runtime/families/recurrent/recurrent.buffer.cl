// Recurrent layers, whose tensors lie as runtime/semantics/recurrence.py says. RECURRENT: 0 RNN, 1 GRU, 2 LSTM. LINEAR (GRU): the
// reset multiplies the product; else the product follows it, and the layer's working rows hold z and r * h. EXTRA: p is
// there (LSTM: peepholes, GRU: bias within the reset). COUPLED (LSTM): the forget gate is 1 - i. GATE, CELL, OUT:
// functions (RecurrentFunction) with their two parameters. Sums and functions are in float; states are stored as all
// tensors are. A vector of VECTOR hidden values is computed by one work item, whose last may be incomplete.
#define GATES (RECURRENT == 2 ? 4 : RECURRENT == RECURRENT_KIND_GRU ? 3 : 1)
#if RECURRENT == RECURRENT_KIND_GRU && !LINEAR
#define PARTS 2
#else
#define PARTS 1
#endif

INLINED floats limited(floats v, float clip) { return UNARY_CLAMP(v, -clip, clip); }

// sum[g] += h . r[gate first + g] for `count` gates and the vector at which r starts; `whole`: the vector is complete.
INLINED void add_product(floats *sum, global const storage *h, global const storage *r, int hidden, const int first,
                         const int count, int exist, const bool whole)
{
    for (int k = 0; k < hidden; k++) {
        const floats v = (floats)(LOAD(h + k));
        global const storage *row = r + (k * GATES + first) * hidden;
        UNROLLED for (int g = 0; g < count; g++) {
            const floats weight = whole ? LOAD_VECTOR(row + g * hidden) : load_some(row + g * hidden, exist);
            sum[g] = MULTIPLY_ADD(v, weight, sum[g]);
        }
    }
}

INLINED void add_products(floats *sum, global const storage *h, global const storage *r, int hidden, const int first,
                          const int count, int exist)
{
    if (exist >= VECTOR)
        add_product(sum, h, r, hidden, first, count, exist, true);
    else
        add_product(sum, h, r, hidden, first, count, exist, false);
}

// One sequence, direction and time step: x and r of the direction; h, c: states before the step; p of the direction; s:
// the working row, s_step elements before the next; y: the new hidden state. j: the vector's first hidden value.
// PART 0 of a GRU without LINEAR writes the working rows, PART 1 reads all of r * h.
INLINED void one_step(const int part, int j, global const storage *x, global const storage *r, global const storage *h,
                      global const storage *c, global const storage *p, global storage *s, int s_step,
                      global storage *y, int hidden, float clip, float gate_a, float gate_b, float cell_a,
                      float cell_b, float out_a, float out_b)
{
    const int exist = hidden - j;
    floats sum[GATES];
    UNROLLED for (int g = 0; g < GATES; g++)
        sum[g] = load_some(x + g * hidden + j, exist);
#if RECURRENT == RECURRENT_KIND_RNN
    add_products(sum, h, r + j, hidden, 0, 1, exist);
    store_some(RECURRENT_FUNCTION(CELL)(limited(sum[0], clip), cell_a, cell_b), y + j, exist);
#elif RECURRENT == RECURRENT_KIND_GRU && LINEAR
    floats inner[1] = {EXTRA ? load_some(p + j, exist) : (floats)(0.0f)};
    add_products(sum, h, r + j, hidden, 0, 2, exist);
    add_products(inner, h, r + j, hidden, 2, 1, exist);
    const floats z = RECURRENT_FUNCTION(GATE)(limited(sum[0], clip), gate_a, gate_b);
    const floats reset = RECURRENT_FUNCTION(GATE)(limited(sum[1], clip), gate_a, gate_b);
    const floats new = RECURRENT_FUNCTION(CELL)(limited(sum[2] + reset * inner[0], clip), cell_a, cell_b);
    store_some(new + z * (load_some(h + j, exist) - new), y + j, exist);
#elif RECURRENT == RECURRENT_KIND_GRU
    if (part == 0) {
        add_products(sum, h, r + j, hidden, 0, 2, exist);
        const floats reset = RECURRENT_FUNCTION(GATE)(limited(sum[1], clip), gate_a, gate_b);
        store_some(RECURRENT_FUNCTION(GATE)(limited(sum[0], clip), gate_a, gate_b), s + j, exist);
        store_some(reset * load_some(h + j, exist), s + s_step + j, exist);
    } else {
        add_products(sum + 2, s + s_step, r + j, hidden, 2, 1, exist);
        const floats z = load_some(s + j, exist);
        const floats new = RECURRENT_FUNCTION(CELL)(limited(sum[2], clip), cell_a, cell_b);
        store_some(new + z * (load_some(h + j, exist) - new), y + j, exist);
    }
#else
    add_products(sum, h, r + j, hidden, 0, 4, exist);
    const floats before = load_some(c + j, exist);
#if EXTRA
    sum[0] += load_some(p + j, exist) * before;
    sum[2] += load_some(p + 2 * hidden + j, exist) * before;
#endif
    const floats i = RECURRENT_FUNCTION(GATE)(limited(sum[0], clip), gate_a, gate_b);
    const floats forget = COUPLED ? 1.0f - i : RECURRENT_FUNCTION(GATE)(limited(sum[2], clip), gate_a, gate_b);
    const floats cell = forget * before + i * RECURRENT_FUNCTION(CELL)(limited(sum[3], clip), cell_a, cell_b);
#if EXTRA
    sum[1] += load_some(p + hidden + j, exist) * cell;
#endif
    const floats o = RECURRENT_FUNCTION(GATE)(limited(sum[1], clip), gate_a, gate_b);
    store_some(cell, s + j, exist);
    store_some(o * RECURRENT_FUNCTION(OUT)(cell, out_a, out_b), y + j, exist);
#endif
}

#if STEPWISE
// One time step of one direction: h [batch][hidden]; x, c, p, s, y at their rows for this step and direction, x_step
// elements of x from one sequence to the next. s lies in the same memory as y. ids (vector, sequence).
kernel void recurrent_step(global const storage *x, int x_offset, global const storage *r, int r_offset,
                           global const storage *h, int h_offset, global const storage *c, int c_offset,
                           global const storage *p, int p_offset, global storage *s, int s_offset, global storage *y,
                           int y_offset, int batch, int hidden, int products, int x_step, int s_step, float clip,
                           float gate_a, float gate_b, float cell_a, float cell_b, float out_a, float out_b)
{
    const int j = get_global_id(0) * VECTOR, n = get_global_id(1);
    if (j >= hidden || n >= batch)
        return;
    one_step(products == 1, j, x + x_offset + n * x_step, r + r_offset, h + h_offset + n * hidden,
             c + c_offset + n * hidden, p + p_offset, s + s_offset + n * hidden, s_step,
             y + y_offset + n * hidden, hidden, clip, gate_a, gate_b, cell_a, cell_b, out_a, out_b);
}
#else
// All time steps of all directions: the work items of a group share the hidden values of a sequence (or of several),
// and wait for each other after each step. Groups behind the first on axis 0 have nothing to do, so that any local size
// is right. backwards: the first direction runs from the end; a second one always does.
// ids (vectors in turn, d * batch + n).
kernel void recurrent_sequence(global const storage *x, int x_offset, global const storage *r, int r_offset,
                               global const storage *h, int h_offset, global const storage *c, int c_offset,
                               global const storage *p, int p_offset, global storage *y, int y_offset, int times,
                               int batch, int hidden, int directions, int gates, int backwards, float clip,
                               float gate_a, float gate_b, float cell_a, float cell_b, float out_a, float out_b)
{
    if (get_group_id(0) > 0)
        return;
    const int rows = directions * batch, row = get_global_id(1), direction = row / batch;
    const int first = row < rows ? get_local_id(0) * VECTOR : hidden, step = get_local_size(0) * VECTOR;
    const int reverse = direction > 0 || backwards;
    x += x_offset + (row % batch * directions + direction) * gates * hidden;
    r += r_offset + direction * hidden * gates * hidden;
    h += h_offset + row * hidden;
    c += c_offset + row * hidden;
    p += p_offset + direction * (RECURRENT == 2 ? 3 : 1) * hidden;
    y += y_offset + row * hidden;
    global storage *s = y + times * rows * hidden;
    for (int i = 0; i < times; i++) {
        const int time = reverse ? times - 1 - i : i;
        global const storage *now = x + time * rows * gates * hidden;
        for (int part = 0; part < PARTS; part++) {
            for (int j = first; j < hidden; j += step)
                one_step(part, j, now, r, h, c, p, s, rows * hidden, y + time * rows * hidden, hidden, clip, gate_a,
                         gate_b, cell_a, cell_b, out_a, out_b);
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
        h = y + time * rows * hidden;
        c = s;
    }
}
#endif
