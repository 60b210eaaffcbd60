// Elements around a tensor of up to four axes: `value` (PAD 0), the tensor mirrored at its edge (PAD 1), or its edge
// repeated (PAD 2). d: output extents, i: input extents, p: elements before the input on each axis.
// One work item writes VECTOR elements of the last axis: ids (last / VECTOR, third, first * d1 + second).

// Input index of an output index on one axis; outside 0 .. size-1 where the constant stands.
int source_index(int index, int before, int size)
{
    const int i = index - before;
#if PAD == PAD_REFLECT
    return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
#elif PAD == PAD_EDGE
    return clamp(i, 0, size - 1);
#else
    return i;
#endif
}

IN_VECTORS
kernel void pad(global const storage *x, int x_offset, global storage *y, int y_offset, int d0, int d1, int d2, int d3,
                int i0, int i1, int i2, int i3, int p0, int p1, int p2, int p3, int xs0, int xs1, int xs2, int xs3,
                int ys0, int ys1, int ys2, int ys3, float value)
{
    const int first = get_global_id(0) * VECTOR, third = get_global_id(1), outer = get_global_id(2);
    if (first >= d3 || third >= d2 || outer >= d0 * d1)
        return;
    const int a = source_index(outer / d1, p0, i0), b = source_index(outer % d1, p1, i1);
    const int c = source_index(third, p2, i2), exist = min(d3 - first, VECTOR);
    const bool row_inside = a >= 0 && a < i0 && b >= 0 && b < i1 && c >= 0 && c < i2;
    x += x_offset + a * xs0 + b * xs1 + c * xs2;
    y += y_offset + outer / d1 * ys0 + outer % d1 * ys1 + third * ys2 + first * ys3;
    for (int i = 0; i < exist; i++) {
        const int d = source_index(first + i, p3, i3);
        STORE(row_inside && d >= 0 && d < i3 ? LOAD(x + d * xs3) : value, y + i * ys3);
    }
}
