// Buffer memory. Pointers are to `storage`: float, or half where PRECISION is not 0. Argument groups:
//   view     x, x_offset, x_stride   NHWC: channel c of pixel p = (n*H + h)*W + w is x[x_offset + p*x_stride + c]
//   flat     x, x_offset             elements from x[x_offset]
//   weights  w, w_offset             constants; at least 64 zeros follow them
// Offsets and strides count elements. Products are added in `real` (half where PRECISION is 2), all else is in float.
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)

#ifdef POCL_DEVICE_ADDRESS_BITS
// PoCL: vload and vstore may not be inlined, and a call in an inner loop costs a factor of four; vload_half and
// vstore_half of vectors demand an alignment that OpenCL does not ask, or the process ends. Its compiler (clang) takes
// vectors that are aligned as their elements instead.
#define ELEMENT_ALIGNED(type, name, n, size) typedef JOIN(type, n) JOIN(name, n) __attribute__((aligned(size)));
ELEMENT_ALIGNED(float, floats_in_memory, 4, 4)
ELEMENT_ALIGNED(float, floats_in_memory, 8, 4)
ELEMENT_ALIGNED(float, floats_in_memory, 16, 4)
ELEMENT_ALIGNED(int, ints_in_memory, 4, 4)
ELEMENT_ALIGNED(int, ints_in_memory, 8, 4)
ELEMENT_ALIGNED(int, ints_in_memory, 16, 4)
ELEMENT_ALIGNED(uchar, bytes_in_memory, 4, 1)
ELEMENT_ALIGNED(uchar, bytes_in_memory, 8, 1)
ELEMENT_ALIGNED(uchar, bytes_in_memory, 16, 1)
ELEMENT_ALIGNED(ushort, halves_in_memory, 4, 2)
ELEMENT_ALIGNED(ushort, halves_in_memory, 8, 2)
ELEMENT_ALIGNED(ushort, halves_in_memory, 16, 2)
#define LOAD_FLOAT_N(n, p) (*(global const JOIN(floats_in_memory, n) *)(p))
#define STORE_FLOAT_N(n, v, p) (*(global JOIN(floats_in_memory, n) *)(p) = (v))
#define LOAD_INT_N(n, p) (*(global const JOIN(ints_in_memory, n) *)(p))
#define LOAD_BYTE_N(n, p) (*(global const JOIN(bytes_in_memory, n) *)(p))
#define STORE_BYTE_N(n, v, p) (*(global JOIN(bytes_in_memory, n) *)(p) = (v))
#define CONVERT_N(type, n, v) __builtin_convertvector(v, JOIN(type, n))
#define HALVES(n)                                                                                                      \
    INLINED JOIN(float, n) JOIN(load_halves, n)(global const half *p)                                                  \
    {                                                                                                                  \
        const JOIN(ushort, n) bits = *(global const JOIN(halves_in_memory, n) *)p;                                     \
        return JOIN(vload_half, n)(0, (const half *)&bits);                                                            \
    }                                                                                                                  \
    INLINED void JOIN(store_halves, n)(JOIN(float, n) v, global half *p)                                               \
    {                                                                                                                  \
        JOIN(ushort, n) bits;                                                                                          \
        JOIN(vstore_half, n)(v, 0, (half *)&bits);                                                                     \
        *(global JOIN(halves_in_memory, n) *)p = bits;                                                                 \
    }
#if PRECISION != 0
HALVES(4)
HALVES(8)
#if VECTOR == 16
HALVES(16)
#endif
#endif
#define LOAD_HALF_N(n, p) JOIN(load_halves, n)(p)
#define STORE_HALF_N(n, v, p) JOIN(store_halves, n)(v, p)
#else
#define LOAD_FLOAT_N(n, p) JOIN(vload, n)(0, p)
#define STORE_FLOAT_N(n, v, p) JOIN(vstore, n)(v, 0, p)
#define LOAD_INT_N(n, p) JOIN(vload, n)(0, p)
#define LOAD_BYTE_N(n, p) JOIN(vload, n)(0, p)
#define STORE_BYTE_N(n, v, p) JOIN(vstore, n)(v, 0, p)
#define CONVERT_N(type, n, v) JOIN(JOIN(convert_, type), n)(v)
#define LOAD_HALF_N(n, p) JOIN(vload_half, n)(0, p)
#define STORE_HALF_N(n, v, p) JOIN(vstore_half, n)(v, 0, p)
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
#define LOAD_N(n, p) LOAD_HALF_N(n, p)
#define STORE_N(n, v, p) STORE_HALF_N(n, v, p)
#endif

#if PRECISION == 2
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half real;
#define REAL_NAME half
#define REAL_N(n) JOIN(half, n)
#define LOAD_REAL(p) (*(p))
#define LOAD_REAL_N(n, p) JOIN(vload, n)(0, p)
#define TO_FLOAT_N(n, v) JOIN(convert_float, n)(v)
#else
typedef float real;
#define REAL_NAME float
#define REAL_N(n) JOIN(float, n)
#define LOAD_REAL(p) LOAD(p)
#define LOAD_REAL_N(n, p) LOAD_N(n, p)
#define TO_FLOAT_N(n, v) (v)
#endif

// BYTES, a sum of: 1 the output, 4 the input lies in unsigned eight bits. Results that are stored so are steps, from
// act_a to act_b. 16: they are rounded by fixed point, as the model's source does; 32: once (see fixed_product).
#ifndef BYTES
#define BYTES 0
#endif
#if BYTES & 4
typedef uchar input_storage;
#define LOAD_INPUT(p) ((real)(*(p)))
#define LOAD_INPUT_N(n, p) CONVERT_N(REAL_NAME, n, LOAD_BYTE_N(n, p))
#else
typedef storage input_storage;
#define LOAD_INPUT(p) LOAD_REAL(p)
#define LOAD_INPUT_N(n, p) LOAD_REAL_N(n, p)
#endif
#if BYTES & 1
typedef uchar output_storage;
#else
typedef storage output_storage;
#endif
// By fixed point biases are whole, [3][channels]: with the multiplier and the shift of a sum.
#if BYTES & 16
typedef int bias_storage;
#else
typedef storage bias_storage;
#endif

#ifdef VECTOR
// Kernels that work on VECTOR neighbouring elements at once.
#if VECTOR == 1
typedef float floats;
typedef real reals;
#define LOAD_VECTOR(p) LOAD(p)
#define STORE_VECTOR(v, p) STORE(v, p)
#else
typedef JOIN(float, VECTOR) floats;
typedef REAL_N(VECTOR) reals;
#define LOAD_VECTOR(p) LOAD_N(VECTOR, p)
#define STORE_VECTOR(v, p) STORE_N(VECTOR, v, p)
#endif
typedef union {
    floats vector;
    float element[VECTOR];
} lanes;
#if VECTOR == 1
typedef union {
    uchar vector, element[1];
} byte_lanes;
typedef int ints;
#define AS_INTS(v) as_int(v)
#define TO_INTS(v) (int)(v)
#define FROM_INTS(v) (float)(v)
#define LOAD_INTS(p) (*(p))
#define BYTES_OF(v) (uchar)(v)
#else
typedef JOIN(int, VECTOR) ints;
#define TO_INTS(v) CONVERT_N(int, VECTOR, v)
#define FROM_INTS(v) CONVERT_N(float, VECTOR, v)
#define LOAD_INTS(p) LOAD_INT_N(VECTOR, p)
typedef union {
    JOIN(uchar, VECTOR) vector;
    uchar element[VECTOR];
} byte_lanes;
#define AS_INTS(v) JOIN(as_int, VECTOR)(v)
#define BYTES_OF(v) CONVERT_N(uchar, VECTOR, v)
#endif

// Before `kernel` where there are branches: what it computes in. Without it Intel's driver for CPUs makes masked vectors
// of 16 work items instead, an instruction for each element of each vector: up to twice the time.
#define IN_VECTORS __attribute__((vec_type_hint(floats)))

// The ends of rows, element by element. In a tile's program they are apart: inlined they would be most of it.
#ifdef BLOCK
#define ENDS __attribute__((noinline))
#else
#define ENDS INLINED
#endif

ENDS void load_each(float *element, global const storage *p, int stride, int count)
{
    for (int i = 0; i < count; i++)
        element[i] = LOAD(p + i * stride);
}

ENDS void store_each(const float *element, global storage *p, int stride, int count)
{
    for (int i = 0; i < count; i++)
        STORE(element[i], p + i * stride);
}

// VECTOR elements `stride` apart, of which `count` exist; the others are zero. Stride 0 repeats one element.
INLINED floats load_strided(global const storage *p, int stride, int count)
{
    if (stride == 1 && count >= VECTOR)
        return LOAD_VECTOR(p);
    if (stride == 0)
        return (floats)(LOAD(p));
    lanes v;
    v.vector = 0.0f;
    load_each(v.element, p, stride, count < VECTOR ? count : VECTOR);
    return v.vector;
}

INLINED floats load_some(global const storage *p, int count) { return load_strided(p, 1, count); }

// Writes the `count` elements that exist.
INLINED void store_strided(floats v, global storage *p, int stride, int count)
{
    if (stride == 1 && count >= VECTOR) {
        STORE_VECTOR(v, p);
        return;
    }
    lanes u;
    u.vector = v;
    store_each(u.element, p, stride, count < VECTOR ? count : VECTOR);
}

INLINED void store_some(floats v, global storage *p, int count) { store_strided(v, p, 1, count); }

// Writes the `count` elements of a result that exist; in bytes those of steps, of which `low` is the least, rounded.
#if BYTES & 1
INLINED void store_result(floats v, global output_storage *p, int stride, int count, float low)
{
    byte_lanes u;
    const float shift = 12582912.0f; // 1.5 * 2^23: the last bit of a sum with it counts ones
    u.vector = BYTES_OF(AS_INTS(v + shift) - (0x4B400000 + (int)low));
#if VECTOR > 1
    if (stride == 1 && count >= VECTOR) {
        STORE_BYTE_N(VECTOR, u.vector, p);
        return;
    }
#endif
    for (int i = 0; i < VECTOR && i < count; i++)
        p[i * stride] = u.element[i];
}
#else
INLINED void store_result(floats v, global output_storage *p, int stride, int count, float low)
{
    store_strided(v, p, stride, count);
}
#endif

#if BYTES & 16
// v * multiplier * 2^(shift - 31), rounded to whole numbers as TFLite's reference kernels do (semantics/fixed_point.py):
// halves upwards, then halves away from zero where it is shifted to the right; or once, halves upwards. Of v * 2^shift
// 30 bits are held, which whoever lowers a model makes sure of: no integers of 64 bits are needed.
INLINED ints fixed_product(ints v, ints multiplier, ints shift)
{
    const ints none = 0; // no scalar: Oclgrind takes the largest of that and a wide vector wrongly
    const ints right = max(-shift, none), high = mul_hi(v << (max(shift, none) + 2), multiplier);
#if BYTES & 32
    return (high + ((ints)(1) << right)) >> (right + 1);
#else
    const ints whole = (high + 1) >> 1, mask = ((ints)(1) << right) - 1, half_way = (mask >> 1) - (whole >> 31);
    return (whole >> right) - ((half_way - (whole & mask)) >> 31);
#endif
}

// Sums in whole numbers to steps, by a bias and what follows it, `channels` from one row to the next.
INLINED floats fixed_steps(ints sum, global const int *bias, int channels)
{
    return FROM_INTS(fixed_product(sum + LOAD_INTS(bias), LOAD_INTS(bias + channels), LOAD_INTS(bias + 2 * channels)));
}
#endif

// VECTOR elements of an input `stride` apart, of which `count` exist.
#if BYTES & 4
INLINED floats load_inputs(global const input_storage *p, int stride, int count)
{
#if VECTOR > 1
    if (stride == 1 && count >= VECTOR)
        return CONVERT_N(float, VECTOR, LOAD_BYTE_N(VECTOR, p));
#endif
    lanes v;
    for (int i = 0; i < VECTOR; i++)
        v.element[i] = i < count ? p[i * stride] : 0;
    return v.vector;
}
#else
INLINED floats load_inputs(global const input_storage *p, int stride, int count)
{
    return load_strided(p, stride, count);
}
#endif

// First of the VECTOR channels of a block. The last block starts earlier so that it is full: some channels are then
// computed by two work items, which write the same values. There must be at least VECTOR channels.
INLINED int block_start(int block, int channels)
{
    return block * VECTOR <= channels - VECTOR ? block * VECTOR : channels - VECTOR;
}
#endif

#ifdef BLOCK
// The register tile of a matrix product: PIXELS rows x BLOCK output channels, as BLOCK / VECTOR vectors a row.
// Weights are packed [channel / PACK][column][PACK], so that a column of the product reads neighbouring weights. With
// WEIGHT_BITS 8 or 4 a column is a word of each channel (layout/integer_rows.py): PER_WORD integers, those of neighbouring
// input channels, the first in the lowest bits; or a float that they are multiplied by, which comes before the row where
// WEIGHT_GROUP is 0, else before the words of each WEIGHT_GROUP integers. Runs are whole words, and whole groups.
// Work items that are neighbours on axis 0 differ in pixels (ORDER 0) or in channels (ORDER 1).
// LOCAL: the work items of a group that share their channels bring LOCAL columns at a time to local memory.
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
#ifndef LOCAL
#define LOCAL 0
#endif
// A work item behind the last pixel has nothing to do, but its part in bringing weights.
#if LOCAL
#define IS_IDLE(first, pixels) false
#else
#define IS_IDLE(first, pixels) ((first) >= (pixels))
#endif
#define PIXEL_ID get_global_id(ORDER)
#define BLOCK_ID get_global_id(1 - ORDER)

#ifdef WEIGHT_BITS
typedef int packed_weights;
#define PER_WORD (32 / WEIGHT_BITS)
#if WEIGHT_GROUP
#define WORDS(columns) ((columns) / PER_WORD + (columns) / WEIGHT_GROUP)
#define ROW_WORDS(columns) WORDS(columns)
#define SCALE_WORD(c) ((uint)(c) / WEIGHT_GROUP * (WEIGHT_GROUP / PER_WORD + 1))
#define INTEGER_WORD(c) ((uint)(c) / PER_WORD + (uint)(c) / WEIGHT_GROUP + 1)
#else
#define WORDS(columns) ((columns) / PER_WORD)
#define ROW_WORDS(columns) (WORDS(columns) + 1)
#define SCALE_WORD(c) 0
#define INTEGER_WORD(c) ((uint)(c) / PER_WORD + 1)
#endif
#else
typedef storage packed_weights;
#define WORDS(columns) (columns)
#define ROW_WORDS(columns) (columns)
#endif

// WHOLE_SUMS: products of bytes and of integers of eight bits with one scale a row are added as integers, exactly. DOT says
// how (kernels/codes.py): four at a time where the device has instructions for that, which Arm's are for signed bytes, so
// that 128 is taken from each; else in floats, as many as these add exactly.
#if (BYTES & 4) && defined(WEIGHT_BITS) && WEIGHT_BITS == 8 && WEIGHT_GROUP == 0 && PRECISION != 2
#define WHOLE_SUMS 1
typedef ints sums;
#else
#define WHOLE_SUMS 0
typedef floats sums;
#endif
#ifndef DOT
#define DOT DOT_NONE
#endif
#if DOT == DOT_KHRONOS
#define ADD_DOT(integers, bytes, sum) dot_acc_sat_4x8packed_su_int(integers, bytes, sum)
#elif DOT == DOT_QUALCOMM
#pragma OPENCL EXTENSION cl_qcom_dot_product8 : enable
#define ADD_DOT(integers, bytes, sum) qcom_dot8_acc(integers, bytes, sum)
#elif DOT == DOT_ARM
#pragma OPENCL EXTENSION cl_arm_integer_dot_product_accumulate_int8 : enable
#define ADD_DOT(integers, bytes, sum) arm_dot_acc(as_char4(integers), as_char4((bytes) ^ 0x80808080u), sum)
#elif DOT == DOT_AVX2
#define PAIR_FUNCTION(words, pairs, multiply_add)                                                                      \
    INLINED words add_pairs(words sum, words integers, uint bytes, const bool odd)                                     \
    {                                                                                                                  \
        const pairs both = JOIN(as_, pairs)(integers), splat = JOIN(as_, pairs)((words)((int)bytes));                  \
        const pairs values = odd ? JOIN(as_, pairs)(JOIN(as_u, pairs)(splat) >> (ushort)8) : splat & (short)255;       \
        return sum + multiply_add((odd ? both : both << (short)8) >> (short)8, values);                                \
    }
// Of bytes 0 and 2 of each word, or of bytes 1 and 3, in 16 bits each.
#if VECTOR == 4
PAIR_FUNCTION(int4, short8, __builtin_ia32_pmaddwd128)
#else
PAIR_FUNCTION(int8, short16, __builtin_ia32_pmaddwd256)
#endif
#endif

// The weights of the first column for a channel that starts a block.
INLINED global const packed_weights *packed(global const packed_weights *w, int channel, int columns)
{
    return w + (channel / PACK * ROW_WORDS(columns) * PACK + channel % PACK);
}

// Of the windows of PIXELS output pixels from `first` on, of which there are `pixels`: row and column of the first tap,
// and the image. Behind the last pixel there is the last one again. Returns whether any window reaches into the padding.
INLINED bool place_windows(int top[PIXELS], int left[PIXELS], int image[PIXELS], int first, int pixels, int2 out,
                           int2 in, int2 reach, int2 stride, int2 pad)
{
    int column = first % out.x, row = first / out.x % out.y, batch = first / out.x / out.y;
    bool padded = false;
    UNROLLED for (int p = 0; p < PIXELS; p++) {
        top[p] = row * stride.y - pad.y;
        left[p] = column * stride.x - pad.x;
        image[p] = batch;
        padded = padded || top[p] < 0 || top[p] + reach.y >= in.y || left[p] < 0 || left[p] + reach.x >= in.x;
        const bool last = first + p >= pixels - 1, row_ends = column == out.x - 1, image_ends = row == out.y - 1;
        column = last ? column : row_ends ? 0 : column + 1;
        row = last || !row_ends ? row : image_ends ? 0 : row + 1;
        batch = last || !row_ends || !image_ends ? batch : batch + 1;
    }
    return padded;
}

// The pixels under a tap (row, column) of these windows: `start` behind `tap`, or zeros where they lie in the padding,
// which is looked for only where any window reaches into it.
INLINED void find_pixels(global const input_storage *pixel[PIXELS], global const input_storage *tap, const int start[PIXELS],
                         bool padded, const int top[PIXELS], const int left[PIXELS], int row, int column, int2 in,
                         global const input_storage *zeros)
{
    UNROLLED for (int p = 0; p < PIXELS; p++)
        pixel[p] = tap + start[p];
    if (padded) {
        UNROLLED for (int p = 0; p < PIXELS; p++) {
            const uint in_row = top[p] + row, in_column = left[p] + column;
            if (in_row >= (uint)in.y || in_column >= (uint)in.x)
                pixel[p] = zeros;
        }
    }
}

INLINED void clear_tile(sums sum[PIXELS][VECTORS])
{
    UNROLLED for (int p = 0; p < PIXELS; p++)
        UNROLLED for (int k = 0; k < VECTORS; k++)
            sum[p][k] = 0;
}

#ifdef WEIGHT_BITS
// Half holds products of what lies between -1 and 1.
#if PRECISION == 2
#define WHOLE (1 << (WEIGHT_BITS - 1))
#define REALS(integers) (CONVERT_N(half, VECTOR, integers) * (half)(1.0f / WHOLE))
#else
#define WHOLE 1
#define REALS(integers) CONVERT_N(float, VECTOR, integers)
#endif

// What the integers of columns from c on are multiplied by.
INLINED floats load_scale(global const packed_weights *w, int c)
{
    return JOIN(as_float, VECTOR)(LOAD_INT_N(VECTOR, w + SCALE_WORD(c) * PACK)) * (float)WHOLE;
}

// The integers of four columns from c on, the first in the lowest bits.
INLINED ints load_four(global const packed_weights *w, int c)
{
    const ints word = LOAD_INT_N(VECTOR, w + INTEGER_WORD(c) * PACK);
    return WEIGHT_BITS == 8 ? word : word >> (c & 4) * 4;
}

// The weights of column number i of such four; of WEIGHT_GROUP 0 they are multiplied by their scale in the end.
INLINED reals weight_of(ints four, const int i, floats scale)
{
    const reals weight = REALS(four << (32 - WEIGHT_BITS - i * WEIGHT_BITS) >> (32 - WEIGHT_BITS));
#if WEIGHT_GROUP
#if PRECISION == 2
    return weight * CONVERT_N(half, VECTOR, scale);
#else
    return weight * scale;
#endif
#else
    return weight;
#endif
}
#endif

// Between start and end of a tile its products are added.
INLINED void start_tile(sums sum[PIXELS][VECTORS], global const bias_storage *bias)
{
#if defined(WEIGHT_BITS) && WEIGHT_GROUP == 0
    clear_tile(sum);
#else
    UNROLLED for (int k = 0; k < VECTORS; k++) {
        const floats start = LOAD_N(VECTOR, bias + k * VECTOR);
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[p][k] = start;
    }
#endif
}

// `w`: the row's first word; `channels`: of all groups.
INLINED void end_tile(floats result[PIXELS][VECTORS], sums sum[PIXELS][VECTORS], global const packed_weights *w,
                      global const bias_storage *bias, int channels)
{
    UNROLLED for (int k = 0; k < VECTORS; k++) {
#if defined(WEIGHT_BITS) && WEIGHT_GROUP == 0 && !(BYTES & 16)
        const floats scale = load_scale(w + k * VECTOR, 0), start = LOAD_N(VECTOR, bias + k * VECTOR);
#endif
        UNROLLED for (int p = 0; p < PIXELS; p++) {
#if BYTES & 16
            result[p][k] = fixed_steps(sum[p][k], bias + k * VECTOR, channels);
#elif WHOLE_SUMS
            result[p][k] = MULTIPLY_ADD(CONVERT_N(float, VECTOR, sum[p][k]), scale, start);
#elif defined(WEIGHT_BITS) && WEIGHT_GROUP == 0
            result[p][k] = MULTIPLY_ADD(sum[p][k], scale, start);
#else
            result[p][k] = sum[p][k];
#endif
        }
    }
}

INLINED void load_weights(reals weight[VECTORS], global const storage *w)
{
    UNROLLED for (int k = 0; k < VECTORS; k++)
        weight[k] = LOAD_REAL_N(VECTOR, w + k * VECTOR);
}

// sum[p] += value[p] * weight: one column.
INLINED void multiply_add_column(reals sum[PIXELS][VECTORS], const real value[PIXELS], const reals weight[VECTORS])
{
    UNROLLED for (int p = 0; p < PIXELS; p++)
        UNROLLED for (int k = 0; k < VECTORS; k++)
            sum[p][k] = MULTIPLY_ADD((reals)(value[p]), weight[k], sum[p][k]);
}

// sum[p] += pixel[p][c] * w[c] for the columns c from `first` up to `end`, COLUMNS (1 or 4) to a step; integers always
// four.
INLINED void multiply_add_columns(reals sum[PIXELS][VECTORS], global const input_storage *const pixel[PIXELS],
                                  global const packed_weights *w, const int first, int end)
{
    real value[PIXELS];
    reals weight[VECTORS];
    int c = first;
#if COLUMNS == 4
    REAL_N(4) four[PIXELS];
#define LOAD_VALUES                                                                                                    \
    UNROLLED for (int p = 0; p < PIXELS; p++)                                                                          \
        four[p] = LOAD_INPUT_N(4, pixel[p] + c);
#define VALUE(p, i) four[p].s##i
#else
#define LOAD_VALUES
#define VALUE(p, i) LOAD_INPUT(pixel[p] + c + i)
#endif
#ifdef WEIGHT_BITS
    ints integers[VECTORS];
    floats scale[VECTORS];
#define LOAD_INTEGERS                                                                                                  \
    UNROLLED for (int k = 0; k < VECTORS; k++) {                                                                       \
        integers[k] = load_four(w + k * VECTOR, c);                                                                    \
        scale[k] = WEIGHT_GROUP ? load_scale(w + k * VECTOR, c) : 1;                                                   \
    }
#define LOAD_WEIGHTS(i)                                                                                                \
    UNROLLED for (int k = 0; k < VECTORS; k++)                                                                         \
        weight[k] = weight_of(integers[k], i, scale[k]);
#else
#define LOAD_INTEGERS
#define LOAD_WEIGHTS(i) load_weights(weight, w + (c + i) * PACK);
#endif
#define MULTIPLY_ADD_COMPONENT(i)                                                                                      \
    UNROLLED for (int p = 0; p < PIXELS; p++)                                                                          \
        value[p] = VALUE(p, i);                                                                                        \
    LOAD_WEIGHTS(i)                                                                                                    \
    multiply_add_column(sum, value, weight);
#if COLUMNS == 4 || defined(WEIGHT_BITS)
    for (; c + 4 <= end; c += 4) {
        LOAD_VALUES
        LOAD_INTEGERS
        MULTIPLY_ADD_COMPONENT(0)
        MULTIPLY_ADD_COMPONENT(1)
        MULTIPLY_ADD_COMPONENT(2)
        MULTIPLY_ADD_COMPONENT(3)
    }
#endif
#ifndef WEIGHT_BITS
    for (; c < end; c++) {
        UNROLLED for (int p = 0; p < PIXELS; p++)
            value[p] = LOAD_INPUT(pixel[p] + c);
        load_weights(weight, w + c * PACK);
        multiply_add_column(sum, value, weight);
    }
#endif
}

#if LOCAL
// The same with the weights in local memory: those of column c are stage[(c - staged) * VECTORS] and what follows it.
INLINED void multiply_add_staged(reals sum[PIXELS][VECTORS], global const input_storage *const pixel[PIXELS],
                                 local const reals *stage, int staged, int first, int end)
{
    for (int c = first; c < end; c++) {
        real value[PIXELS];
        reals weight[VECTORS];
        UNROLLED for (int p = 0; p < PIXELS; p++)
            value[p] = LOAD_INPUT(pixel[p] + c);
        UNROLLED for (int k = 0; k < VECTORS; k++)
            weight[k] = stage[(c - staged) * VECTORS + k];
        multiply_add_column(sum, value, weight);
    }
}
#endif

#if PRECISION == 2 || WHOLE_SUMS
#if WHOLE_SUMS
#define EXACT 512 // products of a byte and an integer, whose sum is within 2^24
#define PART_COLUMNS EXACT
#define TO_SUM(part) CONVERT_N(int, VECTOR, part)
#else
#define PART_COLUMNS RUN
#define TO_SUM(part) TO_FLOAT_N(VECTOR, part)
#endif
// Adds the columns from `first` up to `end`, PART_COLUMNS at a time: `multiply_add`, one of the above, adds those from
// `run` up to `run_end` to `part`.
INLINED void add_part(sums sum[PIXELS][VECTORS], reals part[PIXELS][VECTORS])
{
    UNROLLED for (int p = 0; p < PIXELS; p++) {
        UNROLLED for (int k = 0; k < VECTORS; k++) {
            sum[p][k] += TO_SUM(part[p][k]);
            part[p][k] = 0;
        }
    }
}

#define IN_RUNS(sum, first, end, multiply_add)                                                                         \
    do {                                                                                                               \
        reals part[PIXELS][VECTORS];                                                                                   \
        UNROLLED for (int p = 0; p < PIXELS; p++)                                                                      \
            UNROLLED for (int k = 0; k < VECTORS; k++)                                                                 \
                part[p][k] = 0;                                                                                        \
        for (int run = first; run < (end); run += PART_COLUMNS) {                                                      \
            const int run_end = min(run + PART_COLUMNS, end);                                                          \
            multiply_add;                                                                                              \
            add_part(sum, part);                                                                                       \
        }                                                                                                              \
    } while (0)
#endif

#if WHOLE_SUMS
typedef union {
    ints vector;
    int element[VECTOR];
} words;

#if DOT == DOT_AVX2
// Of two of four bytes, since there are registers for the integers of no more.
INLINED ints add_half(ints sum, ints integers, uint bytes, const bool odd)
{
#if VECTOR == 16
    return (ints)(add_pairs(sum.lo, integers.lo, bytes, odd), add_pairs(sum.hi, integers.hi, bytes, odd));
#else
    return add_pairs(sum, integers, bytes, odd);
#endif
}
#endif

// sum += the products of four bytes with four integers of each channel.
INLINED ints add_dots(ints sum, ints integers, uint bytes)
{
#if DOT == DOT_AVX2
    return add_half(add_half(sum, integers, bytes, false), integers, bytes, true);
#elif DOT == DOT_NONE
    UNROLLED for (int i = 0; i < 4; i++)
        sum += (integers << (24 - 8 * i) >> 24) * (int)(bytes >> 8 * i & 255);
    return sum;
#else
    words w, s;
    w.vector = integers;
    s.vector = sum;
    UNROLLED for (int i = 0; i < VECTOR; i++)
        s.element[i] = ADD_DOT((uint)w.element[i], bytes, s.element[i]);
    return s.vector;
#endif
}

INLINED void add_dot_columns(sums sum[PIXELS][VECTORS], global const input_storage *const pixel[PIXELS],
                             global const packed_weights *w, int columns)
{
    for (int c = 0; c < columns; c += 4) {
        ints integers[VECTORS];
        UNROLLED for (int k = 0; k < VECTORS; k++)
            integers[k] = load_four(w + k * VECTOR, c);
#if DOT == DOT_AVX2
        UNROLLED for (int odd = 0; odd < 2; odd++)
            UNROLLED for (int p = 0; p < PIXELS; p++)
                UNROLLED for (int k = 0; k < VECTORS; k++)
                    sum[p][k] = add_half(sum[p][k], integers[k], as_uint(LOAD_BYTE_N(4, pixel[p] + c)), odd);
#else
        UNROLLED for (int p = 0; p < PIXELS; p++) {
            const uint bytes = as_uint(LOAD_BYTE_N(4, pixel[p] + c));
            UNROLLED for (int k = 0; k < VECTORS; k++)
                sum[p][k] = add_dots(sum[p][k], integers[k], bytes);
        }
#endif
    }
}
#endif

// sum[p] += pixel[p][c] * w[c] for all columns c.
INLINED void multiply_add_tile(sums sum[PIXELS][VECTORS], global const input_storage *const pixel[PIXELS],
                               global const packed_weights *w, int columns)
{
#if WHOLE_SUMS && DOT != DOT_NONE
    add_dot_columns(sum, pixel, w, columns);
#elif PRECISION == 2 || WHOLE_SUMS
    IN_RUNS(sum, 0, columns, multiply_add_columns(part, pixel, w, run, run_end));
#else
    multiply_add_columns(sum, pixel, w, 0, columns);
#endif
}

#if LOCAL
// The same with the weights of LOCAL columns at a time in local memory. Every work item of the group must come here.
// Where the group's shape gives it several blocks of channels, weights are read from global memory.
INLINED void multiply_add_group(sums sum[PIXELS][VECTORS], global const input_storage *const pixel[PIXELS],
                                global const packed_weights *w, int columns, local reals *stage)
{
    if (WHOLE_SUMS || get_local_size(1 - ORDER) != 1 || get_local_size(2) != 1) {
        multiply_add_tile(sum, pixel, w, columns);
        return;
    }
#if !WHOLE_SUMS
    for (int first = 0; first < columns; first += LOCAL) {
        const int end = min(first + LOCAL, columns);
        barrier(CLK_LOCAL_MEM_FENCE);
#ifdef WEIGHT_BITS
        for (int i = get_local_id(ORDER); i < (end - first) / 4 * VECTORS; i += get_local_size(ORDER)) {
            const int column = i / VECTORS * 4, k = i % VECTORS;
            const ints four = load_four(w + k * VECTOR, first + column);
            const floats scale = WEIGHT_GROUP ? load_scale(w + k * VECTOR, first + column) : 1;
            UNROLLED for (int j = 0; j < 4; j++)
                stage[(column + j) * VECTORS + k] = weight_of(four, j, scale);
        }
#else
        for (int i = get_local_id(ORDER); i < (end - first) * VECTORS; i += get_local_size(ORDER))
            stage[i] = LOAD_REAL_N(VECTOR, w + (first + i / VECTORS) * PACK + i % VECTORS * VECTOR);
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
#if PRECISION == 2
        IN_RUNS(sum, first, end, multiply_add_staged(part, pixel, stage, first, run, run_end));
#else
        multiply_add_staged(sum, pixel, stage, first, first, end);
#endif
    }
#endif
}
#endif

// y = activation(sum (+ or * residual)) for the rows and channels that exist; `whole`: all channels do.
INLINED void write_part(floats sum[PIXELS][VECTORS], global const storage *residual, int residual_stride,
                        global output_storage *y, int y_stride, int rows, int channels, float act_a, float act_b,
                        const bool whole)
{
    UNROLLED for (int p = 0; p < PIXELS; p++) {
        if (p < rows) {
            UNROLLED for (int k = 0; k < VECTORS; k++) {
                const int first = k * VECTOR, exist = whole ? VECTOR : channels - first;
                if (exist > 0) {
                    floats v = sum[p][k];
#if RESIDUAL == RESIDUAL_MULTIPLY
                    v *= load_some(residual + p * residual_stride + first, exist);
#elif RESIDUAL
                    v += load_some(residual + p * residual_stride + first, exist);
#endif
                    store_result(ACTIVATE(v, act_a, act_b), y + p * y_stride + first, 1, exist, act_a);
                }
            }
        }
    }
}

INLINED void write_tile(floats sum[PIXELS][VECTORS], global const storage *residual, int residual_stride,
                        global output_storage *y, int y_stride, int rows, int channels, float act_a, float act_b)
{
    if (channels >= BLOCK)
        write_part(sum, residual, residual_stride, y, y_stride, rows, channels, act_a, act_b, true);
    else
        write_part(sum, residual, residual_stride, y, y_stride, rows, channels, act_a, act_b, false);
}
#endif
