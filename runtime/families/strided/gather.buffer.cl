// Elements whose place an index tells at run time:
//   y[i] = x[sum of i * xs + index(i) * step], index(i) = k[sum of i * ks], from the end of `limit` where it is negative,
// for i = (i0, i1, i2, i3) < d; y is dense. An index out of range has NaN. INDEX_WORDS: ints of an index, the low one
// first. RUNS: neighbours along the last loop share an index and lie side by side.
// One work item reads VECTOR elements of the last loop: ids (i3 / VECTOR, i2, i0*d1 + i1).

// The element that index `at` tells; -1 where it is out of range.
INLINED int place_of(global const int *k, int at, int limit, int step)
{
#if INDEX_WORDS == 2
    const int chosen = k[2 * at], high = k[2 * at + 1];
    if (high != chosen >> 31)
        return -1;
#else
    const int chosen = k[at];
#endif
    if (chosen < -limit || chosen >= limit)
        return -1;
    return (chosen < 0 ? chosen + limit : chosen) * step;
}

kernel void gather(global const storage *x, int x_offset, global const int *k, int k_offset, global storage *y,
                   int y_offset, int d0, int d1, int d2, int d3, int xs0, int xs1, int xs2, int xs3, int ks0, int ks1,
                   int ks2, int ks3, int limit, int step)
{
    const int i3 = get_global_id(0) * VECTOR, i2 = get_global_id(1), outer = get_global_id(2), exist = d3 - i3;
    if (i3 >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i1 = outer % d1, i0 = outer / d1, index = i0 * ks0 + i1 * ks1 + i2 * ks2 + i3 * ks3;
    k += k_offset;
    x += x_offset + i0 * xs0 + i1 * xs1 + i2 * xs2 + i3 * xs3;
    y += y_offset + (outer * d2 + i2) * d3 + i3;
#if RUNS
    const int place = place_of(k, index, limit, step);
    store_some(place < 0 ? (floats)(NAN) : load_some(x + max(place, 0), exist), y, exist);
#else
    for (int e = 0; e < min(exist, VECTOR); e++) {
        const int place = place_of(k, index + e * ks3, limit, step);
        STORE(place < 0 ? NAN : LOAD(x + place + e * xs3), y + e);
    }
#endif
}
