// Element-wise function UNARY (runtime/semantics/unary.py) of a tensor along four nested loops:
// y[i0*ys0 + ... + i3*ys3] = f(x[i0*xs0 + ... + i3*xs3]; alpha, beta), i0 < d0 ... i3 < d3.
// In bytes (BYTES) the output is rounded to 255 steps from alpha to beta.
// One work item computes ITEMS vectors of the last loop: ids (i3 / (VECTOR*ITEMS), i2, i0*d1 + i1).
#ifdef UNARY
IN_VECTORS
kernel void unary(global const storage *x, int x_offset, global output_storage *y, int y_offset, int d0, int d1, int d2,
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
#if BYTES & 1
        const float steps = 255.0f / (beta - alpha), low = rint(alpha * steps);
        store_result(clamp(v * steps, low, low + 255.0f), y + i3 * ys3, ys3, d3 - i3, low);
#else
        store_strided(APPLY_UNARY(v, alpha, beta), y + i3 * ys3, ys3, d3 - i3);
#endif
    }
}
#else
// The same of bytes, by a table of what becomes of each: bytes, or floats.
IN_VECTORS
kernel void lookup(global const uchar *x, int x_offset, global const output_storage *table, int table_offset,
                   global output_storage *y, int y_offset, int d0, int d1, int d2, int d3, int xs0, int xs1, int xs2,
                   int xs3, int ys0, int ys1, int ys2, int ys3)
{
    const int first = get_global_id(0) * VECTOR * ITEMS, i2 = get_global_id(1), outer = get_global_id(2);
    if (first >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i0 = outer / d1, i1 = outer % d1, end = min(first + VECTOR * ITEMS, d3);
    x += x_offset + i0 * xs0 + i1 * xs1 + i2 * xs2;
    y += y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2;
    table += table_offset;
    for (int i3 = first; i3 < end; i3 += VECTOR) {
#if BYTES & 1
        byte_lanes found;
        for (int i = 0; i < VECTOR; i++)
            found.element[i] = table[x[min(i3 + i, d3 - 1) * xs3]];
        if (ys3 == 1 && i3 + VECTOR <= d3) {
            STORE_BYTE_N(VECTOR, found.vector, y + i3);
        } else {
            for (int i = 0; i < VECTOR && i3 + i < d3; i++)
                y[(i3 + i) * ys3] = found.element[i];
        }
#else
        lanes found;
        for (int i = 0; i < VECTOR; i++)
            found.element[i] = LOAD(table + x[min(i3 + i, d3 - 1) * xs3]);
        store_strided(found.vector, y + i3 * ys3, ys3, d3 - i3);
#endif
    }
}
#endif
