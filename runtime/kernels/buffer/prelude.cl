// Buffer memory. Pointers are to `storage`: float, or half where PRECISION is not 0. Argument groups:
//   view     x, x_offset, x_stride   NHWC: channel c of pixel p = (n*H + h)*W + w is x[x_offset + p*x_stride + c]
//   flat     x, x_offset             elements from x[x_offset]
//   weights  w, w_offset             constants; at least 64 zeros follow them
// Offsets and strides count elements. Sums of products run in `real` (half where PRECISION is 2), all else in float.
#define UNROLLED _Pragma("unroll")
#define INLINED __attribute__((always_inline))
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)

#ifdef POCL_DEVICE_ADDRESS_BITS
// PoCL may not inline vload and vstore, and a call in an inner loop costs a factor of four; its compiler (clang) takes
// vectors that are aligned as their elements instead.
typedef float4 element_aligned4 __attribute__((aligned(4)));
typedef float8 element_aligned8 __attribute__((aligned(4)));
typedef float16 element_aligned16 __attribute__((aligned(4)));
#define LOAD_FLOAT_N(n, p) (*(global const JOIN(element_aligned, n) *)(p))
#define STORE_FLOAT_N(n, v, p) (*(global JOIN(element_aligned, n) *)(p) = (v))
#else
#define LOAD_FLOAT_N(n, p) JOIN(vload, n)(0, p)
#define STORE_FLOAT_N(n, v, p) JOIN(vstore, n)(v, 0, p)
#endif

#if PRECISION == 0
typedef float storage;
#define LOAD(p) (*(p))
#define STORE(v, p) (*(p) = (v))
#define LOAD_N(n, p) LOAD_FLOAT_N(n, p)
#define STORE_N(n, v, p) STORE_FLOAT_N(n, v, p)
#else
typedef half storage;
#define LOAD(p) vload_half(0, p)
#define STORE(v, p) vstore_half(v, 0, p)
#define LOAD_N(n, p) JOIN(vload_half, n)(0, p)
#define STORE_N(n, v, p) JOIN(vstore_half, n)(v, 0, p)
#endif

#if PRECISION == 2
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half real;
#define REAL_N(n) JOIN(half, n)
#define LOAD_REAL(p) (*(p))
#define LOAD_REAL_N(n, p) JOIN(vload, n)(0, p)
#define TO_FLOAT_N(n, v) JOIN(convert_float, n)(v)
#else
typedef float real;
#define REAL_N(n) JOIN(float, n)
#define LOAD_REAL(p) LOAD(p)
#define LOAD_REAL_N(n, p) LOAD_N(n, p)
#define TO_FLOAT_N(n, v) (v)
#endif

#ifdef VECTOR
// Kernels that work on VECTOR neighbouring elements at once; the last work item of a row has fewer.
typedef JOIN(float, VECTOR) floats;
typedef REAL_N(VECTOR) reals;
typedef union {
    floats vector;
    float element[VECTOR];
} lanes;

// VECTOR elements in a row, of which `count` exist; the others are zero.
INLINED floats load_some(global const storage *p, int count)
{
    if (count >= VECTOR)
        return LOAD_N(VECTOR, p);
    lanes v;
    for (int i = 0; i < VECTOR; i++)
        v.element[i] = i < count ? LOAD(p + i) : 0.0f;
    return v.vector;
}

// Writes the `count` elements that exist.
INLINED void store_some(floats v, global storage *p, int count)
{
    if (count >= VECTOR) {
        STORE_N(VECTOR, v, p);
        return;
    }
    lanes u;
    u.vector = v;
    for (int i = 0; i < count; i++)
        STORE(u.element[i], p + i);
}

// Elements `stride` apart; stride 0 repeats one.
INLINED floats load_strided(global const storage *p, int stride, int count)
{
    if (stride == 1)
        return load_some(p, count);
    if (stride == 0)
        return (floats)(LOAD(p));
    lanes v;
    for (int i = 0; i < VECTOR; i++)
        v.element[i] = i < count ? LOAD(p + i * stride) : 0.0f;
    return v.vector;
}

INLINED void store_strided(floats v, global storage *p, int stride, int count)
{
    if (stride == 1) {
        store_some(v, p, count);
        return;
    }
    lanes u;
    u.vector = v;
    for (int i = 0; i < min(count, VECTOR); i++)
        STORE(u.element[i], p + i * stride);
}
#endif

#ifdef BLOCK
// The register tile of a matrix product: PIXELS rows x BLOCK output channels, as BLOCK / VECTOR vectors a row.
// Weights are packed [channel / PACK][column][PACK], so that a column of the product reads neighbouring weights.
// Work items that are neighbours on axis 0 differ in pixels (ORDER 0) or in channels (ORDER 1).
#define VECTORS (BLOCK / VECTOR)
#ifndef PACK
#define PACK BLOCK
#endif
#ifndef ORDER
#define ORDER 0
#endif
#ifndef COLUMNS
#define COLUMNS 1
#endif
#define PIXEL_ID get_global_id(ORDER)
#define BLOCK_ID get_global_id(1 - ORDER)

// The weights of the first column for a channel that starts a block.
INLINED global const storage *packed(global const storage *w, int channel, int columns)
{
    return w + (channel / PACK * columns * PACK + channel % PACK);
}

INLINED void clear_tile(reals sum[PIXELS][VECTORS])
{
    UNROLLED for (int p = 0; p < PIXELS; p++)
        UNROLLED for (int k = 0; k < VECTORS; k++)
            sum[p][k] = 0;
}

INLINED void start_tile(reals sum[PIXELS][VECTORS], global const storage *bias)
{
    UNROLLED for (int k = 0; k < VECTORS; k++) {
        const reals start = LOAD_REAL_N(VECTOR, bias + k * VECTOR);
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[p][k] = start;
    }
}

// sum[p] += value[p] * w: one column.
INLINED void multiply_add_column(reals sum[PIXELS][VECTORS], const real value[PIXELS], global const storage *w)
{
    UNROLLED for (int k = 0; k < VECTORS; k++) {
        const reals weight = LOAD_REAL_N(VECTOR, w + k * VECTOR);
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[p][k] = MULTIPLY_ADD((reals)(value[p]), weight, sum[p][k]);
    }
}

// sum[p] += pixel[p][c] * w[c] for all columns c, COLUMNS (1 or 4) to a step.
INLINED void multiply_add_tile(reals sum[PIXELS][VECTORS], global const storage *const pixel[PIXELS],
                               global const storage *w, int columns)
{
    real value[PIXELS];
    int c = 0;
#if COLUMNS == 4
    for (; c + 4 <= columns; c += 4) {
        REAL_N(4) four[PIXELS];
        UNROLLED for (int p = 0; p < PIXELS; p++)
            four[p] = LOAD_REAL_N(4, pixel[p] + c);
#define MULTIPLY_ADD_COMPONENT(i)                                                                                      \
    UNROLLED for (int p = 0; p < PIXELS; p++)                                                                          \
        value[p] = four[p].s##i;                                                                                       \
    multiply_add_column(sum, value, w + (c + i) * PACK);
        MULTIPLY_ADD_COMPONENT(0)
        MULTIPLY_ADD_COMPONENT(1)
        MULTIPLY_ADD_COMPONENT(2)
        MULTIPLY_ADD_COMPONENT(3)
    }
#endif
    for (; c < columns; c++) {
        UNROLLED for (int p = 0; p < PIXELS; p++)
            value[p] = LOAD_REAL(pixel[p] + c);
        multiply_add_column(sum, value, w + c * PACK);
    }
}

// y = activation(sum (+ residual)) for the `channels` that exist of one row of the tile.
INLINED void write_row(const reals sum[VECTORS], global const storage *residual, global storage *y, int channels, float act_a,
               float act_b)
{
    UNROLLED for (int k = 0; k < VECTORS; k++) {
        const int first = k * VECTOR;
        if (first < channels) {
            floats v = TO_FLOAT_N(VECTOR, sum[k]);
#if RESIDUAL
            v += load_some(residual + first, channels - first);
#endif
            store_some(ACTIVATE(v, act_a, act_b), y + first, channels - first);
        }
    }
}
#endif
