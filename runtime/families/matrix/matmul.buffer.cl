// Products of matrices in up to three loops: y[i][m][n] = sum over k of a[i][m][k] * b[i][k][n], i = (i0, i1, i2) < d.
// Every loop has its stride in each tensor: 0 repeats a matrix, and any order of rows and columns is a transposition.
// One work item computes PIXELS rows x VECTOR columns: ids (column / VECTOR, row / PIXELS, (i0*d1 + i1)*d2 + i2).
kernel void matmul(global const storage *a, int a_offset, global const storage *b, int b_offset, global storage *y,
                   int y_offset, int d0, int d1, int d2, int m, int k, int n, int as0, int as1, int as2, int am,
                   int ak, int bs0, int bs1, int bs2, int bk, int bn, int ys0, int ys1, int ys2, int ym, int yn)
{
    const int column = get_global_id(0) * VECTOR, first = get_global_id(1) * PIXELS, matrix = get_global_id(2);
    if (column >= n || first >= m || matrix >= d0 * d1 * d2)
        return;
    const int i2 = matrix % d2, i1 = matrix / d2 % d1, i0 = matrix / d2 / d1, exist = n - column;
    a += a_offset + i0 * as0 + i1 * as1 + i2 * as2;
    b += b_offset + i0 * bs0 + i1 * bs1 + i2 * bs2 + column * bn;
    y += y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2 + column * yn;
    floats sum[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++)
        sum[p] = 0.0f;
    for (int c = 0; c < k; c++) {
        const floats right = load_strided(b + c * bk, bn, exist);
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[p] = MULTIPLY_ADD((floats)(LOAD(a + min(first + p, m - 1) * am + c * ak)), right, sum[p]);
    }
    UNROLLED for (int p = 0; p < PIXELS; p++)
        if (first + p < m)
            store_strided(sum[p], y + (first + p) * ym, yn, exist);
}
