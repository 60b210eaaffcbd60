// Element-wise function BINARY (runtime/kernels/codes.py) of two tensors along four nested loops; stride 0 broadcasts:
// y[i0*ys0 + ... + i3*ys3] = act(f(a[i0*as0 + ... + i3*as3], b[i0*bs0 + ... + i3*bs3])), i0 < d0 ... i3 < d3.
// One work item computes ITEMS vectors of the last loop: ids (i3 / (VECTOR*ITEMS), i2, i0*d1 + i1).

#if !BYTES
IN_VECTORS
kernel void binary(global const storage *a, int a_offset, global const storage *b, int b_offset, global storage *y,
                   int y_offset, int d0, int d1, int d2, int d3, int as0, int as1, int as2, int as3, int bs0, int bs1,
                   int bs2, int bs3, int ys0, int ys1, int ys2, int ys3, float act_a, float act_b)
{
    const int first = get_global_id(0) * VECTOR * ITEMS, i2 = get_global_id(1), outer = get_global_id(2);
    if (first >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i0 = outer / d1, i1 = outer % d1, end = min(first + VECTOR * ITEMS, d3);
    a += a_offset + i0 * as0 + i1 * as1 + i2 * as2;
    b += b_offset + i0 * bs0 + i1 * bs1 + i2 * bs2;
    y += y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2;
    for (int i3 = first; i3 < end; i3 += VECTOR) {
        const floats left = load_strided(a + i3 * as3, as3, d3 - i3);
        const floats right = load_strided(b + i3 * bs3, bs3, d3 - i3);
        const floats v = APPLY_BINARY(left, right);
        store_strided(ACTIVATE(v, act_a, act_b), y + i3 * ys3, ys3, d3 - i3);
    }
}
#else
// The same of bytes: of a and b `*_zero` is taken, times `*_scale`; act_a and act_b are the least and the most of results
// in whole steps, which are rounded to them.
IN_VECTORS
kernel void binary_bytes(global const uchar *a, int a_offset, global const uchar *b, int b_offset, global uchar *y,
                         int y_offset, int d0, int d1, int d2, int d3, int as0, int as1, int as2, int as3, int bs0,
                         int bs1, int bs2, int bs3, int ys0, int ys1, int ys2, int ys3, float a_scale, float a_zero,
                         float b_scale, float b_zero, float act_a, float act_b)
{
    const int first = get_global_id(0) * VECTOR * ITEMS, i2 = get_global_id(1), outer = get_global_id(2);
    if (first >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i0 = outer / d1, i1 = outer % d1, end = min(first + VECTOR * ITEMS, d3);
    a += a_offset + i0 * as0 + i1 * as1 + i2 * as2;
    b += b_offset + i0 * bs0 + i1 * bs1 + i2 * bs2;
    y += y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2;
    for (int i3 = first; i3 < end; i3 += VECTOR) {
        const floats left = (load_inputs(a + i3 * as3, as3, d3 - i3) - a_zero) * a_scale;
        const floats right = (load_inputs(b + i3 * bs3, bs3, d3 - i3) - b_zero) * b_scale;
        const floats v = clamp(APPLY_BINARY(left, right), act_a, act_b);
        store_result(v, y + i3 * ys3, ys3, d3 - i3, act_a);
    }
}
#endif
