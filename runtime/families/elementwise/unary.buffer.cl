// Element-wise function UNARY (runtime/semantics/unary.py) of a tensor along four nested loops:
// y[i0*ys0 + ... + i3*ys3] = f(x[i0*xs0 + ... + i3*xs3]; alpha, beta), i0 < d0 ... i3 < d3.
// One work item computes ITEMS vectors of the last loop: ids (i3 / (VECTOR*ITEMS), i2, i0*d1 + i1).
IN_VECTORS
kernel void unary(global const storage *x, int x_offset, global storage *y, int y_offset, int d0, int d1, int d2,
                  int d3, int xs0, int xs1, int xs2, int xs3, int ys0, int ys1, int ys2, int ys3, float alpha,
                  float beta)
{
    const int first = get_global_id(0) * VECTOR * ITEMS, i2 = get_global_id(1), outer = get_global_id(2);
    if (first >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i0 = outer / d1, i1 = outer % d1, end = min(first + VECTOR * ITEMS, d3);
    x += x_offset + i0 * xs0 + i1 * xs1 + i2 * xs2;
    y += y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2;
    for (int i3 = first; i3 < end; i3 += VECTOR) {
        const floats v = load_strided(x + i3 * xs3, xs3, d3 - i3);
        store_strided(APPLY_UNARY(v, alpha, beta), y + i3 * ys3, ys3, d3 - i3);
    }
}
