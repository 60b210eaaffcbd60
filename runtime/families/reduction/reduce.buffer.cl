// Reduction of the middle one of three nested loops: y[o][i] = mean, sum, greatest or least (REDUCE 0, 1, 2, 3) over r
// of x[o][r][i]. Strides are of elements; the outputs are y_outer_stride and y_inner_stride apart.
// One work item reduces VECTOR inner elements: ids (inner / VECTOR, outer). LANES: the work items of a work group share
// a row of neighbouring elements, and join what they have in local memory: ids (lane, outer). Any number gives the same.
#define MOST_ITEMS 1024
#if REDUCE == REDUCE_MAX
#define START (-INFINITY)
#define COMBINE(a, b) GREATER(a, b)
#elif REDUCE == REDUCE_MIN
#define START INFINITY
#define COMBINE(a, b) LESS(a, b)
#else
#define START 0.0f
#define COMBINE(a, b) ((a) + (b))
#endif

#ifdef LANES
INLINED float joined(float value, local float *shared) JOIN_LANES(float, COMBINE)
#endif

// A row of neighbouring elements: vectors run along the row, its end goes element by element. Of these a work item has
// the first one and each `step`-th.
INLINED float reduce_row(global const storage *x, int length, int first, int step)
{
    const int whole = length / VECTOR * VECTOR;
    lanes part;
    part.vector = START;
    for (int r = first * VECTOR; r < whole; r += step * VECTOR) {
        const floats v = LOAD_VECTOR(x + r);
        part.vector = COMBINE(part.vector, v);
    }
    float result = START;
    for (int i = 0; i < VECTOR; i++)
        result = COMBINE(result, part.element[i]);
    for (int r = whole + first; r < length; r += step)
        result = COMBINE(result, LOAD(x + r));
    return result;
}

IN_VECTORS
kernel void reduce(global const storage *x, int x_offset, global storage *y, int y_offset, int outer, int reduced,
                   int inner, int x_outer_stride, int x_reduced_stride, int x_inner_stride, int y_outer_stride,
                   int y_inner_stride)
{
#ifdef LANES
    local float shared[MOST_ITEMS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int lane = alone ? 0 : get_local_id(0), o = min((int)get_global_id(1), outer - 1);
    float total = reduce_row(x + x_offset + o * x_outer_stride, reduced, lane, alone ? 1 : get_local_size(0));
    if (!alone)
        total = joined(total, shared);
#if REDUCE == REDUCE_MEAN
    total /= (float)reduced;
#endif
    if (get_global_id(0) == 0 && get_global_id(1) < outer)
        STORE(total, y + y_offset + o * y_outer_stride);
#else
    const int o = get_global_id(1);
    int first = get_global_id(0) * VECTOR;
    if (first >= inner || o >= outer)
        return;
    const bool in_vectors = x_inner_stride == 1 && y_inner_stride == 1 && inner >= VECTOR;
    if (in_vectors) // the last vector starts earlier, so that it is full
        first = min(first, inner - VECTOR);
    x += x_offset + o * x_outer_stride + first * x_inner_stride;
    y += y_offset + o * y_outer_stride + first * y_inner_stride;
    const int exist = inner - first;
    floats result = START;
    if (inner == 1 && x_reduced_stride == 1) {
        result = reduce_row(x, reduced, 0, 1);
    } else if (in_vectors) {
        for (int r = 0; r < reduced; r++) {
            const floats v = LOAD_VECTOR(x + r * x_reduced_stride);
            result = COMBINE(result, v);
        }
    } else {
        for (int r = 0; r < reduced; r++) {
            const floats v = load_strided(x + r * x_reduced_stride, x_inner_stride, exist);
            result = COMBINE(result, v);
        }
    }
#if REDUCE == REDUCE_MEAN
    result /= (float)reduced;
#endif
    store_strided(result, y, y_inner_stride, exist);
#endif
}
