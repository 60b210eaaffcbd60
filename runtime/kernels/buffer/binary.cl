// Element-wise function BINARY (runtime/kernels/codes.py) of two tensors along four nested loops; stride 0 broadcasts:
// y[i0*ys0 + ... + i3*ys3] = act(f(a[i0*as0 + ... + i3*as3], b[i0*bs0 + ... + i3*bs3])), i0 < d0 ... i3 < d3.
// One work item computes VECTOR elements of the last loop: ids (i3 / VECTOR, i2, i0*d1 + i1).

kernel void binary(global const storage *a, int a_offset, global const storage *b, int b_offset, global storage *y,
                   int y_offset, int d0, int d1, int d2, int d3, int as0, int as1, int as2, int as3, int bs0, int bs1,
                   int bs2, int bs3, int ys0, int ys1, int ys2, int ys3, float act_a, float act_b)
{
    const int first = get_global_id(0) * VECTOR, i2 = get_global_id(1), outer = get_global_id(2);
    if (first >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i0 = outer / d1, i1 = outer % d1, exist = d3 - first;
    const floats left = load_strided(a + a_offset + i0 * as0 + i1 * as1 + i2 * as2 + first * as3, as3, exist);
    const floats right = load_strided(b + b_offset + i0 * bs0 + i1 * bs1 + i2 * bs2 + first * bs3, bs3, exist);
    const floats v = APPLY_BINARY(left, right);
    store_strided(ACTIVATE(v, act_a, act_b), y + y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2 + first * ys3, ys3, exist);
}
