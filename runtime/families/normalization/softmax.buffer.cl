// Softmax, or its logarithm (LOG 1), over the middle one of three nested loops:
// y[o][l][i] = exp(x[o][l][i] - max) / sum of exp(x[o][.][i] - max). Strides are of elements.
// One work item computes VECTOR inner elements: ids (inner / VECTOR, outer). LANES: the work items of a work group share
// a row of neighbouring elements, and join their sums in local memory: ids (lane, outer). Any number gives the same.
#define MOST_ITEMS 1024
#if LOG
#define NORMALISED(v, sum) ((v) - log(sum))
#else
#define NORMALISED(v, sum) (exp(v) / (sum))
#endif

#ifdef LANES
INLINED float sum_of_items(float value, local float *shared) JOIN_LANES(float, SUM)
INLINED float greatest_of_items(float value, local float *shared) JOIN_LANES(float, GREATER)
#endif

// Rows of neighbouring elements: vectors run along the row, the end of a row goes element by element. Those of a work
// item are the first one and each `step`-th; `shared` is where it meets those that have the others, 0: it is alone.
INLINED void softmax_row(global const storage *x, global storage *y, int length, int first, int step, bool writes,
                         local float *shared)
{
    const int whole = length / VECTOR * VECTOR, begin = first * VECTOR, stride = step * VECTOR;
    lanes part;
    part.vector = -INFINITY;
    for (int l = begin; l < whole; l += stride) {
        const floats v = LOAD_VECTOR(x + l);
        part.vector = GREATER(part.vector, v);
    }
    float greatest = -INFINITY, sum = 0.0f;
    for (int l = whole + first; l < length; l += step)
        greatest = GREATER(LOAD(x + l), greatest);
    for (int i = 0; i < VECTOR; i++)
        greatest = GREATER(part.element[i], greatest);
#ifdef LANES
    if (shared)
        greatest = greatest_of_items(greatest, shared);
#endif
    part.vector = 0.0f;
    for (int l = begin; l < whole; l += stride)
        part.vector += exp(LOAD_VECTOR(x + l) - greatest);
    for (int l = whole + first; l < length; l += step)
        sum += exp(LOAD(x + l) - greatest);
    for (int i = 0; i < VECTOR; i++)
        sum += part.element[i];
#ifdef LANES
    if (shared)
        sum = sum_of_items(sum, shared);
#endif
    if (!writes)
        return;
    for (int l = begin; l < whole; l += stride)
        STORE_VECTOR(NORMALISED(LOAD_VECTOR(x + l) - greatest, sum), y + l);
    for (int l = whole + first; l < length; l += step)
        STORE(NORMALISED(LOAD(x + l) - greatest, sum), y + l);
}

IN_VECTORS
kernel void softmax(global const storage *x, int x_offset, global storage *y, int y_offset, int outer, int length,
                    int inner, int x_outer_stride, int x_stride, int x_inner_stride, int y_outer_stride, int y_stride,
                    int y_inner_stride)
{
#ifdef LANES
    local float shared[MOST_ITEMS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int o = min((int)get_global_id(1), outer - 1);
    // Work groups behind the first on axis 0 have nothing to write.
    const bool writes = get_global_id(1) < outer && get_global_id(0) == get_local_id(0);
    softmax_row(x + x_offset + o * x_outer_stride, y + y_offset + o * y_outer_stride, length,
                alone ? 0 : get_local_id(0), alone ? 1 : get_local_size(0), writes, alone ? 0 : shared);
#else
    const int first = get_global_id(0) * VECTOR, o = get_global_id(1);
    if (first >= inner || o >= outer)
        return;
    x += x_offset + o * x_outer_stride + first * x_inner_stride;
    y += y_offset + o * y_outer_stride + first * y_inner_stride;
    if (inner == 1 && x_stride == 1 && y_stride == 1) {
        softmax_row(x, y, length, 0, 1, true, 0);
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
#endif
}
