// Buffer memory. Pointers are to `storage`: float, or half where PRECISION is not 0. Argument groups:
//   view     x, x_offset, x_stride   NHWC: channel c of pixel p = (n*H + h)*W + w is x[x_offset + p*x_stride + c]
//   flat     x, x_offset             elements from x[x_offset]
//   weights  w, w_offset             constants; at least 64 zeros follow them
// Offsets and strides count elements. Sums of products run in `real` (half where PRECISION is 2), all else in float.
#define UNROLLED _Pragma("unroll")
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)

#if PRECISION == 0
typedef float storage;
#define LOAD(p) (*(p))
#define STORE(v, p) (*(p) = (v))
#define LOAD_N(n, p) JOIN(vload, n)(0, p)
#define STORE_N(n, v, p) JOIN(vstore, n)(v, 0, p)
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

// VECTOR elements in a row, of which `count` exist; the others are zero.
floats load_some(global const storage *p, int count)
{
    if (count >= VECTOR)
        return LOAD_N(VECTOR, p);
    float element[VECTOR];
    for (int i = 0; i < VECTOR; i++)
        element[i] = i < count ? LOAD(p + i) : 0.0f;
    return JOIN(vload, VECTOR)(0, element);
}

// Writes the `count` elements that exist.
void store_some(floats v, global storage *p, int count)
{
    if (count >= VECTOR) {
        STORE_N(VECTOR, v, p);
        return;
    }
    float element[VECTOR];
    JOIN(vstore, VECTOR)(v, 0, element);
    for (int i = 0; i < count; i++)
        STORE(element[i], p + i);
}

// Elements `stride` apart; stride 0 repeats one.
floats load_strided(global const storage *p, int stride, int count)
{
    if (stride == 1)
        return load_some(p, count);
    if (stride == 0)
        return (floats)(LOAD(p));
    float element[VECTOR];
    for (int i = 0; i < VECTOR; i++)
        element[i] = i < count ? LOAD(p + i * stride) : 0.0f;
    return JOIN(vload, VECTOR)(0, element);
}

void store_strided(floats v, global storage *p, int stride, int count)
{
    if (stride == 1) {
        store_some(v, p, count);
        return;
    }
    float element[VECTOR];
    JOIN(vstore, VECTOR)(v, 0, element);
    for (int i = 0; i < min(count, VECTOR); i++)
        STORE(element[i], p + i * stride);
}
#endif

#ifdef BLOCK
// The register tile of a matrix product: PIXELS rows x BLOCK output channels, as BLOCK / VECTOR vectors a row. Weights
// are packed [column][BLOCK], so that one column of the product is one load for all channels of the block.
#define VECTORS (BLOCK / VECTOR)

void clear_tile(reals sum[PIXELS][VECTORS])
{
    UNROLLED for (int p = 0; p < PIXELS; p++)
        UNROLLED for (int k = 0; k < VECTORS; k++)
            sum[p][k] = 0;
}

void start_tile(reals sum[PIXELS][VECTORS], global const storage *bias)
{
    UNROLLED for (int k = 0; k < VECTORS; k++) {
        const reals start = LOAD_REAL_N(VECTOR, bias + k * VECTOR);
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[p][k] = start;
    }
}

// sum[p] += pixel[p][c] * w[c] for all columns c.
void multiply_add_tile(reals sum[PIXELS][VECTORS], global const storage *const pixel[PIXELS],
                       global const storage *w, int columns)
{
    for (int c = 0; c < columns; c++) {
        UNROLLED for (int k = 0; k < VECTORS; k++) {
            const reals weight = LOAD_REAL_N(VECTOR, w + c * BLOCK + k * VECTOR);
            UNROLLED for (int p = 0; p < PIXELS; p++)
                sum[p][k] = MULTIPLY_ADD((reals)(LOAD_REAL(pixel[p] + c)), weight, sum[p][k]);
        }
    }
}

// y = activation(sum (+ residual)) for the `channels` that exist of one row of the tile.
void write_row(const reals sum[VECTORS], global const storage *residual, global storage *y, int channels, float act_a,
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
