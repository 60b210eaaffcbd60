// Strided copy of six nested loops: y[i0*ys0 + ... + i5*ys5] = x[i0*xs0 + ... + i5*xs5], i0 < d0 ... i5 < d5.
// SRC_F32, DST_F32: that side is float32 whatever the precision (a plan's inputs and outputs are).
// One work item copies ROWS x VECTOR elements of the last two loops: ids (i5 / VECTOR, i4 / ROWS,
// ((i0*d1 + i1)*d2 + i2)*d3 + i3).
#if SRC_F32
typedef float source;
#define LOAD_SOURCE(p) (*(p))
#define LOAD_SOURCE_N(n, p) LOAD_FLOAT_N(n, p)
#else
typedef storage source;
#define LOAD_SOURCE(p) LOAD(p)
#define LOAD_SOURCE_N(n, p) LOAD_N(n, p)
#endif
#if DST_F32
typedef float target;
#define STORE_TARGET(v, p) (*(p) = (v))
#define STORE_TARGET_N(n, v, p) STORE_FLOAT_N(n, v, p)
#else
typedef storage target;
#define STORE_TARGET(v, p) STORE(v, p)
#define STORE_TARGET_N(n, v, p) STORE_N(n, v, p)
#endif

IN_VECTORS
kernel void copy(global const source *x, int x_offset, global target *y, int y_offset, int d0, int d1, int d2, int d3,
                 int d4, int d5, int xs0, int xs1, int xs2, int xs3, int xs4, int xs5, int ys0, int ys1, int ys2,
                 int ys3, int ys4, int ys5)
{
    const int first = get_global_id(0) * VECTOR, row = get_global_id(1) * ROWS, outer = get_global_id(2);
    if (first >= d5 || row >= d4 || outer >= d0 * d1 * d2 * d3)
        return;
    const int i3 = outer % d3, i2 = outer / d3 % d2, i1 = outer / d3 / d2 % d1, i0 = outer / d3 / d2 / d1;
    x += x_offset + i0 * xs0 + i1 * xs1 + i2 * xs2 + i3 * xs3 + row * xs4 + first * xs5;
    y += y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2 + i3 * ys3 + row * ys4 + first * ys5;
    const int rows = min(d4 - row, ROWS), exist = min(d5 - first, VECTOR);
    const bool contiguous = xs5 == 1 && ys5 == 1 && exist == VECTOR;
    for (int r = 0; r < rows; r++, x += xs4, y += ys4) {
        if (contiguous)
            STORE_TARGET_N(VECTOR, LOAD_SOURCE_N(VECTOR, x), y);
        else
            for (int i = 0; i < exist; i++)
                STORE_TARGET(LOAD_SOURCE(x + i * xs5), y + i * ys5);
    }
}
