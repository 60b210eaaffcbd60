// Softmax, or its logarithm (LOG 1), over the middle one of three nested loops:
// y[o][l][i] = exp(x[o][l][i] - max) / sum of exp(x[o][.][i] - max). Strides are of elements.
// One work item computes VECTOR inner elements: ids (inner / VECTOR, outer).
#if LOG
#define NORMALISED(v, sum) ((v) - log(sum))
#else
#define NORMALISED(v, sum) (exp(v) / (sum))
#endif

// Rows of neighbouring elements: vectors run along the row, the end of a row goes element by element.
INLINED void softmax_row(global const storage *x, global storage *y, int length)
{
    const int whole = length / VECTOR * VECTOR;
    lanes part;
    part.vector = -INFINITY;
    for (int l = 0; l < whole; l += VECTOR) {
        const floats v = LOAD_VECTOR(x + l);
        part.vector = GREATER(part.vector, v);
    }
    float greatest = -INFINITY, sum = 0.0f;
    for (int l = whole; l < length; l++)
        greatest = GREATER(LOAD(x + l), greatest);
    for (int i = 0; i < VECTOR; i++)
        greatest = GREATER(part.element[i], greatest);
    part.vector = 0.0f;
    for (int l = 0; l < whole; l += VECTOR)
        part.vector += exp(LOAD_VECTOR(x + l) - greatest);
    for (int l = whole; l < length; l++)
        sum += exp(LOAD(x + l) - greatest);
    for (int i = 0; i < VECTOR; i++)
        sum += part.element[i];
    for (int l = 0; l < whole; l += VECTOR)
        STORE_VECTOR(NORMALISED(LOAD_VECTOR(x + l) - greatest, sum), y + l);
    for (int l = whole; l < length; l++)
        STORE(NORMALISED(LOAD(x + l) - greatest, sum), y + l);
}

IN_VECTORS
kernel void softmax(global const storage *x, int x_offset, global storage *y, int y_offset, int outer, int length,
                    int inner, int x_outer_stride, int x_stride, int x_inner_stride, int y_outer_stride, int y_stride,
                    int y_inner_stride)
{
    const int first = get_global_id(0) * VECTOR, o = get_global_id(1);
    if (first >= inner || o >= outer)
        return;
    x += x_offset + o * x_outer_stride + first * x_inner_stride;
    y += y_offset + o * y_outer_stride + first * y_inner_stride;
    if (inner == 1 && x_stride == 1 && y_stride == 1) {
        softmax_row(x, y, length);
        return;
    }
    const int exist = inner - first;
    floats greatest = -INFINITY, sum = 0.0f;
    for (int l = 0; l < length; l++) {
        const floats v = load_strided(x + l * x_stride, x_inner_stride, exist);
        greatest = GREATER(greatest, v);
    }
    for (int l = 0; l < length; l++)
        sum += exp(load_strided(x + l * x_stride, x_inner_stride, exist) - greatest);
    for (int l = 0; l < length; l++) {
        const floats v = load_strided(x + l * x_stride, x_inner_stride, exist) - greatest;
        store_strided(NORMALISED(v, sum), y + l * y_stride, y_inner_stride, exist);
    }
}
