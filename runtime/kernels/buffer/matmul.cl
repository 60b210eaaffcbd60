// Products of stacks of row-major matrices: y[i] = a[i] b[i], a [m][k], b [k][n], y [m][n]; consecutive matrices lie
// a_batch_stride and b_batch_stride elements apart (0: one matrix for all).
// One work item computes PIXELS rows x VECTOR columns: ids (column / VECTOR, row / PIXELS, matrix).
kernel void matmul(global const storage *a, int a_offset, global const storage *b, int b_offset, global storage *y,
                   int y_offset, int batch, int m, int k, int n, int a_batch_stride, int b_batch_stride)
{
    const int column = get_global_id(0) * VECTOR, first = get_global_id(1) * PIXELS, matrix = get_global_id(2);
    if (column >= n || first >= m || matrix >= batch)
        return;
    const int exist = n - column;
    a += a_offset + matrix * a_batch_stride;
    b += b_offset + matrix * b_batch_stride + column;
    floats sum[PIXELS];
    UNROLLED for (int p = 0; p < PIXELS; p++)
        sum[p] = 0.0f;
    for (int c = 0; c < k; c++) {
        const floats right = load_some(b + c * n, exist);
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[p] = MULTIPLY_ADD((floats)(LOAD(a + min(first + p, m - 1) * k + c)), right, sum[p]);
    }
    UNROLLED for (int p = 0; p < PIXELS; p++)
        if (first + p < m)
            store_some(sum[p], y + y_offset + (matrix * m + first + p) * n + column, exist);
}
