// Rotary positions: the two halves of each row, d3 elements, turn by the angles of the row's place:
//   y[i][e] = x[i][e] * cos[i][e] - x[i][d3+e] * sin[i][e],  y[i][d3+e] = x[i][d3+e] * cos[i][d3+e] + x[i][e] * sin[i][d3+e]
// for rows i = (i0, i1, i2) < d. Each loop has its stride in x and in the tables; y is dense. x_half, c_half and s_half:
// elements from a half to the next, 0 where both read the same angles.
// One work item computes VECTOR elements of each half: ids (e / VECTOR, i2, i0*d1 + i1).
kernel void rotary(global const storage *x, int x_offset, global const storage *cosines, int cosines_offset,
                   global const storage *sines, int sines_offset, global storage *y, int y_offset, int d0, int d1,
                   int d2, int d3, int xs0, int xs1, int xs2, int x_half, int cs0, int cs1, int cs2, int c_half,
                   int ss0, int ss1, int ss2, int s_half)
{
    const int e = get_global_id(0) * VECTOR, i2 = get_global_id(1), outer = get_global_id(2), exist = d3 - e;
    if (e >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i1 = outer % d1, i0 = outer / d1;
    x += x_offset + i0 * xs0 + i1 * xs1 + i2 * xs2 + e;
    cosines += cosines_offset + i0 * cs0 + i1 * cs1 + i2 * cs2 + e;
    sines += sines_offset + i0 * ss0 + i1 * ss1 + i2 * ss2 + e;
    y += y_offset + (outer * d2 + i2) * 2 * d3 + e;
    const floats low = load_some(x, exist), high = load_some(x + x_half, exist);
    store_some(low * load_some(cosines, exist) - high * load_some(sines, exist), y, exist);
    store_some(high * load_some(cosines + c_half, exist) + low * load_some(sines + s_half, exist), y + d3, exist);
}
