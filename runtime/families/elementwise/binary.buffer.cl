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
    if (as3 == 1 && bs3 == 1 && ys3 == 1 && d3 >= VECTOR) { // the last vector starts earlier, so that it is full
        for (int i = first; i < end; i += VECTOR) {
            const int i3 = min(i, d3 - VECTOR);
            const floats left = LOAD_VECTOR(a + i3), right = LOAD_VECTOR(b + i3), v = APPLY_BINARY(left, right);
            STORE_VECTOR(ACTIVATE(v, act_a, act_b), y + i3);
        }
        return;
    }
    for (int i3 = first; i3 < end; i3 += VECTOR) {
        const floats left = load_strided(a + i3 * as3, as3, d3 - i3);
        const floats right = load_strided(b + i3 * bs3, bs3, d3 - i3);
        const floats v = APPLY_BINARY(left, right);
        store_strided(ACTIVATE(v, act_a, act_b), y + i3 * ys3, ys3, d3 - i3);
    }
}
#else
// The same of bytes: of a and b `*_zero` is taken, times `*_scale`; act_a and act_b are the least and the most of results
// in whole steps, which are rounded to them. By fixed point a product is times y's multiplier and shift; so is a sum, of
// which each operand is times its own before, with 20 bits behind its point, and taken away where its scale is negative.
#if BYTES & 16 && BINARY == BINARY_ADD
INLINED ints operand(ints v, float scale, int multiplier, int shift)
{
    const ints scaled = fixed_product(v << 20, (ints)(multiplier), (ints)(shift));
    return scale < 0 ? -scaled : scaled;
}
#define IN_FIXED_POINT(a, b)                                                                                           \
    operand(a, a_scale, a_multiplier, a_shift) + operand(b, b_scale, b_multiplier, b_shift)
#else
#define IN_FIXED_POINT(a, b) (a) * (b)
#endif

IN_VECTORS
kernel void binary_bytes(global const uchar *a, int a_offset, global const uchar *b, int b_offset, global uchar *y,
                         int y_offset, int d0, int d1, int d2, int d3, int as0, int as1, int as2, int as3, int bs0,
                         int bs1, int bs2, int bs3, int ys0, int ys1, int ys2, int ys3, int a_multiplier,
                         int a_shift, int b_multiplier, int b_shift, int y_multiplier, int y_shift, float a_scale,
                         float a_zero, float b_scale, float b_zero, float act_a, float act_b)
{
    const int first = get_global_id(0) * VECTOR * ITEMS, i2 = get_global_id(1), outer = get_global_id(2);
    if (first >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i0 = outer / d1, i1 = outer % d1, end = min(first + VECTOR * ITEMS, d3);
    a += a_offset + i0 * as0 + i1 * as1 + i2 * as2;
    b += b_offset + i0 * bs0 + i1 * bs1 + i2 * bs2;
    y += y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2;
    for (int i3 = first; i3 < end; i3 += VECTOR) {
        const floats left = load_inputs(a + i3 * as3, as3, d3 - i3) - a_zero;
        const floats right = load_inputs(b + i3 * bs3, bs3, d3 - i3) - b_zero;
#if BYTES & 16
        const ints v = fixed_product(IN_FIXED_POINT(TO_INTS(left), TO_INTS(right)), (ints)(y_multiplier), (ints)(y_shift));
        const floats found = FROM_INTS(v);
#else
        const floats found = APPLY_BINARY(left * a_scale, right * b_scale);
#endif
        store_result(clamp(found, act_a, act_b), y + i3 * ys3, ys3, d3 - i3, act_a);
    }
}
#endif
