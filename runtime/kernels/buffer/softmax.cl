// Softmax, or its logarithm (LOG 1), over the middle one of three nested loops:
// y[o][l][i] = exp(x[o][l][i] - max) / sum of exp(x[o][.][i] - max). Strides are of elements.
// One work item computes VECTOR inner elements: ids (inner / VECTOR, outer).
kernel void softmax(global const storage *x, int x_offset, global storage *y, int y_offset, int outer, int length,
                    int inner, int x_outer_stride, int x_stride, int x_inner_stride, int y_outer_stride, int y_stride,
                    int y_inner_stride)
{
    const int first = get_global_id(0) * VECTOR, o = get_global_id(1);
    if (first >= inner || o >= outer)
        return;
    x += x_offset + o * x_outer_stride + first * x_inner_stride;
    y += y_offset + o * y_outer_stride + first * y_inner_stride;
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
#if LOG
        store_strided(v - log(sum), y + l * y_stride, y_inner_stride, exist);
#else
        store_strided(exp(v) / sum, y + l * y_stride, y_inner_stride, exist);
#endif
    }
}
