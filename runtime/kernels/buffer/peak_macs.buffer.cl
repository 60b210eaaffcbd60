// The most multiply-adds that a device does: in registers alone, SUMS sums of vectors, none of which waits for another.
// y[i] = the sum of s[0] ... s[SUMS-1], where s[k] begins as k + x[2 + i%16] and `rounds` times becomes s[k]*x[0] + x[1].
// One work item computes VECTOR elements of y: id i / VECTOR.
#define SUMS 12

IN_VECTORS
kernel void peak_macs(global const storage *x, int x_offset, global storage *y, int y_offset, int rounds, int elements)
{
    const int first = get_global_id(0) * VECTOR;
    if (first >= elements)
        return;
    x += x_offset;
    const reals factor = (reals)(LOAD_REAL(x)), step = (reals)(LOAD_REAL(x + 1));
    const reals start = LOAD_REAL_N(VECTOR, x + 2 + first % 16);
    reals sum[SUMS];
    UNROLLED for (int k = 0; k < SUMS; k++)
        sum[k] = start + (real)k;
    for (int round = 0; round < rounds; round++) {
        UNROLLED for (int k = 0; k < SUMS; k++)
            sum[k] = MULTIPLY_ADD(sum[k], factor, step);
    }
    floats total = 0;
    UNROLLED for (int k = 0; k < SUMS; k++)
        total += TO_FLOAT_N(VECTOR, sum[k]);
    store_some(total, y + y_offset + first, elements - first);
}
