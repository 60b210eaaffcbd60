// Reduction of the middle one of three nested loops: y[o][i] = mean, sum, greatest or least (REDUCE 0, 1, 2, 3) over r
// of x[o][r][i]. Strides are of elements; the outputs are y_outer_stride and y_inner_stride apart.
// One work item reduces VECTOR inner elements: ids (inner / VECTOR, outer).
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

// A row of neighbouring elements: vectors run along the row, its end goes element by element.
INLINED float reduce_row(global const storage *x, int length)
{
    const int whole = length / VECTOR * VECTOR;
    lanes part;
    part.vector = START;
    for (int r = 0; r < whole; r += VECTOR) {
        const floats v = LOAD_VECTOR(x + r);
        part.vector = COMBINE(part.vector, v);
    }
    float result = START;
    for (int i = 0; i < VECTOR; i++)
        result = COMBINE(result, part.element[i]);
    for (int r = whole; r < length; r++)
        result = COMBINE(result, LOAD(x + r));
    return result;
}

IN_VECTORS
kernel void reduce(global const storage *x, int x_offset, global storage *y, int y_offset, int outer, int reduced,
                   int inner, int x_outer_stride, int x_reduced_stride, int x_inner_stride, int y_outer_stride,
                   int y_inner_stride)
{
    const int first = get_global_id(0) * VECTOR, o = get_global_id(1);
    if (first >= inner || o >= outer)
        return;
    x += x_offset + o * x_outer_stride + first * x_inner_stride;
    y += y_offset + o * y_outer_stride + first * y_inner_stride;
    const int exist = inner - first;
    floats result = START;
    if (inner == 1 && x_reduced_stride == 1) {
        result = reduce_row(x, reduced);
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
}
