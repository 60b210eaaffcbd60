// A function of up to three tensors of any element types, each with strides of its own: y[i] = f(a[i], b[i], c[i])
// for i = (i0, i1, i2, i3) < d.
// A_TYPE, B_TYPE, C_TYPE, Y_TYPE: element types; ELEMENT: what is computed; REAL: in floats, else in whole numbers,
// which wrap round when they are stored.
// One work item computes VECTOR elements of the last loop: ids (i3 / VECTOR, i2, i0*d1 + i1).
#define TYPE_0 storage
#define TYPE_1 storage
#define TYPE_2 int
#define TYPE_5 char
#define TYPE_6 uchar
#define TYPE_7 short
#define TYPE_8 ushort
#define TYPE_10 long
#define TYPE_12 uchar
typedef JOIN(TYPE_, A_TYPE) a_storage;
typedef JOIN(TYPE_, B_TYPE) b_storage;
typedef JOIN(TYPE_, C_TYPE) c_storage;
typedef JOIN(TYPE_, Y_TYPE) y_storage;
#define IS_REAL(type) (type == ELEMENT_TYPE_F32 || type == ELEMENT_TYPE_F16)

#if A_TYPE == ELEMENT_TYPE_I64 || B_TYPE == ELEMENT_TYPE_I64 || Y_TYPE == ELEMENT_TYPE_I64
typedef long whole;
#define TO_WHOLE convert_long_sat
#else
typedef int whole;
#define TO_WHOLE convert_int_sat
#endif
#if REAL
typedef float number;
#else
typedef whole number;
#endif

// The number at a place of a tensor, as it is computed with.
#define LOAD_STORAGE(p) LOAD(p)
#define LOAD_PLAIN(p) (*(p))
#if IS_REAL(A_TYPE)
#define LOAD_A LOAD_STORAGE
#else
#define LOAD_A LOAD_PLAIN
#endif
#if IS_REAL(B_TYPE)
#define LOAD_B LOAD_STORAGE
#else
#define LOAD_B LOAD_PLAIN
#endif
#if IS_REAL(C_TYPE)
#define LOAD_C LOAD_STORAGE
#else
#define LOAD_C LOAD_PLAIN
#endif

INLINED void store_number(number v, global y_storage *y)
{
#if IS_REAL(Y_TYPE)
    STORE((float)v, y);
#elif Y_TYPE == ELEMENT_TYPE_BOOL
    *y = v != 0;
#else
    *y = (y_storage)TO_WHOLE(v);
#endif
}

#if REAL
#define REMAINDER(v, w) fmod(v, w)
#define QUOTIENT(v, w) ((v) / (w))
#define MAGNITUDE(v) fabs(v)
#define IS_NAN(v) ((v) != (v))
#else
// A division by zero gives 0; the least number by -1 wraps round.
#define REMAINDER(v, w) ((w) == 0 || (w) == -1 ? 0 : (v) % (w))
#define QUOTIENT(v, w) ((w) == 0 ? 0 : (w) == -1 ? 0 - (v) : (v) / (w))
#define MAGNITUDE(v) ((v) < 0 ? 0 - (v) : (v))
#define IS_NAN(v) 0
#endif

// Of one operand, `w` is `v`.
INLINED number compute(number v, number w, float alpha, float beta)
{
    const number rest = ELEMENT == ELEMENT_FUNCTION_MOD || ELEMENT == ELEMENT_FUNCTION_FMOD ? REMAINDER(v, w) : 0;
    switch (ELEMENT) {
    case ELEMENT_FUNCTION_NEG:
        return 0 - v;
    case ELEMENT_FUNCTION_ABS:
        return MAGNITUDE(v);
    case ELEMENT_FUNCTION_SIGN:
        return v > 0 ? 1 : v < 0 ? -1 : v;
    case ELEMENT_FUNCTION_IS_NAN:
        return IS_NAN(v);
    case ELEMENT_FUNCTION_IS_INF:
        return (alpha != 0 && v == -INFINITY) || (beta != 0 && v == INFINITY);
    case ELEMENT_FUNCTION_NOT:
        return v == 0;
    case ELEMENT_FUNCTION_ADD:
        return v + w;
    case ELEMENT_FUNCTION_SUB:
        return v - w;
    case ELEMENT_FUNCTION_MUL:
        return v * w;
    case ELEMENT_FUNCTION_DIV:
        return QUOTIENT(v, w);
    case ELEMENT_FUNCTION_MOD:
        return rest != 0 && (rest < 0) != (w < 0) ? rest + w : rest;
    case ELEMENT_FUNCTION_FMOD:
        return rest;
    case ELEMENT_FUNCTION_MAX:
        return v > w || IS_NAN(v) ? v : w;
    case ELEMENT_FUNCTION_MIN:
        return v < w || IS_NAN(v) ? v : w;
    case ELEMENT_FUNCTION_AND:
        return v != 0 && w != 0;
    case ELEMENT_FUNCTION_OR:
        return v != 0 || w != 0;
    case ELEMENT_FUNCTION_XOR:
        return (v != 0) != (w != 0);
    case ELEMENT_FUNCTION_EQUAL:
        return v == w;
    case ELEMENT_FUNCTION_LESS:
        return v < w;
    case ELEMENT_FUNCTION_LESS_OR_EQUAL:
        return v <= w;
    case ELEMENT_FUNCTION_GREATER:
        return v > w;
    case ELEMENT_FUNCTION_GREATER_OR_EQUAL:
        return v >= w;
    default:
        return v;
    }
}

kernel void elements(global const a_storage *a, int a_offset, global const b_storage *b, int b_offset,
                     global const c_storage *c, int c_offset, global y_storage *y, int y_offset, int d0, int d1, int d2,
                     int d3, int as0, int as1, int as2, int as3, int bs0, int bs1, int bs2, int bs3, int cs0, int cs1,
                     int cs2, int cs3, int ys0, int ys1, int ys2, int ys3, float alpha, float beta)
{
    const int i3 = get_global_id(0) * VECTOR, i2 = get_global_id(1), outer = get_global_id(2);
    if (i3 >= d3 || i2 >= d2 || outer >= d0 * d1)
        return;
    const int i1 = outer % d1, i0 = outer / d1;
    a += a_offset + i0 * as0 + i1 * as1 + i2 * as2 + i3 * as3;
    b += b_offset + i0 * bs0 + i1 * bs1 + i2 * bs2 + i3 * bs3;
    c += c_offset + i0 * cs0 + i1 * cs1 + i2 * cs2 + i3 * cs3;
    y += y_offset + i0 * ys0 + i1 * ys1 + i2 * ys2 + i3 * ys3;
    for (int e = 0; e < min(d3 - i3, VECTOR); e++) {
#if ELEMENT == ELEMENT_FUNCTION_WHERE
        const number v = LOAD_A(a + e * as3) != 0 ? (number)LOAD_B(b + e * bs3) : (number)LOAD_C(c + e * cs3);
#elif ELEMENT == ELEMENT_FUNCTION_FILL
        const number v = (number)alpha;
#else
        const number v = compute((number)LOAD_A(a + e * as3), (number)LOAD_B(b + e * bs3), alpha, beta);
#endif
        store_number(v, y + e * ys3);
    }
}
