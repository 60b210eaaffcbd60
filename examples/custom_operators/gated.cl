// Gated activation: y = x * alpha * sigmoid(gate), over `count` elements.
// One work item computes ITEMS vectors of VECTOR elements.
kernel void gated(global const storage *x, int x_offset, global const storage *gate, int gate_offset,
                  global storage *y, int y_offset, int count, float alpha)
{
    const int first = get_global_id(0) * VECTOR * ITEMS, end = min(first + VECTOR * ITEMS, count);
    x += x_offset;
    gate += gate_offset;
    y += y_offset;
    int i = first;
    for (; i + VECTOR <= end; i += VECTOR) {
        const floats v = LOAD_VECTOR(x + i), g = LOAD_VECTOR(gate + i);
        STORE_VECTOR(v * alpha / (1.0f + exp(-g)), y + i);
    }
    for (; i < end; i++)
        STORE(LOAD(x + i) * alpha / (1.0f + exp(-LOAD(gate + i))), y + i);
}
