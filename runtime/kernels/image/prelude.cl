// Image memory. An activation is a channel-major RGBA image: channels 4*block .. 4*block+3 of pixel (n, h, w) are the
// components at column block*width + w of row n*height + h. Rules that every kernel here keeps:
//   - a tensor may lie in a larger image: nothing outside its logical size decides a result, nor is written;
//   - components of channels that do not exist are written as zero, so that a reader may multiply them by zero;
//   - multiply-accumulates run in `real`, all else in float: read_imagef and write_imagef convert half images.

__constant sampler_t SAMPLER = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;

#if PRECISION == 2
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half4 real4;
#define READ_REAL(image, column, row) read_imageh(image, SAMPLER, (int2)(column, row))
#define TO_FLOAT4(pixel) convert_float4(pixel)
#else
typedef float4 real4;
#define READ_REAL(image, column, row) read_imagef(image, SAMPLER, (int2)(column, row))
#define TO_FLOAT4(pixel) (pixel)
#endif

#define READ(image, column, row) read_imagef(image, SAMPLER, (int2)(column, row))

// With WEIGHT_BITS the image of the weights has signed bytes, and that of the bias, behind its last block, what those of
// each output channel are multiplied by, times 128: half holds that, and products of what lies between -1 and 1.
#ifndef WEIGHT_BITS
#define READ_WEIGHTS(image, column, row) READ_REAL(image, column, row)
#elif PRECISION == 2
#define READ_WEIGHTS(image, column, row)                                                                               \
    (convert_half4(read_imagei(image, SAMPLER, (int2)(column, row))) * (half)(1.0f / 128))
#define READ_SCALE(bias, block, channels) READ(bias, blocks_of(channels) + (block), 0)
#else
#define READ_WEIGHTS(image, column, row) convert_float4(read_imagei(image, SAMPLER, (int2)(column, row)))
#define READ_SCALE(bias, block, channels) (READ(bias, blocks_of(channels) + (block), 0) * (1.0f / 128))
#endif

// A column that no image has: reading there gives zero.
#define OUTSIDE (-1)

// An array's four values; vload4 would need its address, and the array its place in memory.
#define VECTOR_OF(values) ((float4)(values[0], values[1], values[2], values[3]))

int blocks_of(int channels) { return (channels + 3) / 4; }

// Column of pixel w in a block of channels, or OUTSIDE where w is not in 0 .. width-1.
int column_of(int block, int w, int width) { return w >= 0 && w < width ? block * width + w : OUTSIDE; }

// Channels first .. first+3 of pixel w, first being any number; those that do not exist have no meaning.
float4 read_channels(read_only image2d_t x, int first, int w, int row, int width)
{
    const int block = first >> 2, shift = first & 3;
    const float4 low = READ(x, block * width + w, row);
    if (shift == 0)
        return low;
    const float4 high = READ(x, (block + 1) * width + w, row);
    return shift == 1   ? (float4)(low.y, low.z, low.w, high.x)
           : shift == 2 ? (float4)(low.z, low.w, high.x, high.y)
                        : (float4)(low.w, high.x, high.y, high.z);
}

// Channel `channel` of pixel w; one that does not exist has no meaning.
float read_channel(read_only image2d_t x, int channel, int w, int row, int width)
{
    const float4 pixel = READ(x, (channel >> 2) * width + w, row);
    const float2 half_pixel = channel & 2 ? pixel.zw : pixel.xy;
    return channel & 1 ? half_pixel.y : half_pixel.x;
}

// The components of `pixel` whose channels, first .. first+3, lie in 0 .. channels-1; the others of `otherwise`.
float4 existing(float4 pixel, float4 otherwise, int first, int channels)
{
    const int4 channel = (int4)(first) + (int4)(0, 1, 2, 3);
    return select(otherwise, pixel, channel >= 0 & channel < channels);
}

// Writes pixel w of a block of channels; components of channels that do not exist become zero.
void write_block(write_only image2d_t y, int block, int w, int row, int width, int channels, float4 pixel)
{
    const float4 whole = existing(pixel, (float4)(0.0f), block * 4, channels);
    write_imagef(y, (int2)(block * width + w, row), whole);
}

#ifdef BLOCKS
// The register tile of a work item: PIXELS neighbouring pixels of a row x BLOCKS blocks of four output channels.

// TILE(sum) declares it; after each PIXELS x BLOCKS products a kernel says ADDED(sum, n), how many came to each sum, and
// END_TILE(sum) at last. In half arithmetic the products go to PART(sum), which is added to `sum` after each run.
#if PRECISION == 2
#define PART(sum) sum##_part
#define TILE(sum)                                                                                                      \
    float4 sum[BLOCKS][PIXELS];                                                                                        \
    real4 PART(sum)[BLOCKS][PIXELS];                                                                                   \
    int sum##_length = 0;                                                                                              \
    clear_part(PART(sum))
#define ADDED(sum, n)                                                                                                  \
    if ((sum##_length += (n)) >= RUN) {                                                                                \
        add_part(sum, PART(sum));                                                                                      \
        sum##_length = 0;                                                                                              \
    }
#define END_TILE(sum) add_part(sum, PART(sum))

INLINED void clear_part(real4 part[BLOCKS][PIXELS])
{
    UNROLLED for (int block = 0; block < BLOCKS; block++)
        UNROLLED for (int p = 0; p < PIXELS; p++)
            part[block][p] = (real4)(0);
}

INLINED void add_part(float4 sum[BLOCKS][PIXELS], real4 part[BLOCKS][PIXELS])
{
    UNROLLED for (int block = 0; block < BLOCKS; block++)
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[block][p] += TO_FLOAT4(part[block][p]);
    clear_part(part);
}
#else
#define PART(sum) sum
#define TILE(sum) float4 sum[BLOCKS][PIXELS]
#define ADDED(sum, n)
#define END_TILE(sum)
#endif

// Adds the product of four input channels with their weights, which start at (column, row): input channel i is in the
// i-th column, a block of output channels `row_step` rows after the one before.
INLINED void multiply_add_tile(real4 sum[BLOCKS][PIXELS], const real4 pixel[PIXELS], read_only image2d_t weights,
                               int column, int row, int row_step)
{
    UNROLLED for (int block = 0; block < BLOCKS; block++) {
        const real4 weights_x = READ_WEIGHTS(weights, column, row + block * row_step);
        const real4 weights_y = READ_WEIGHTS(weights, column + 1, row + block * row_step);
        const real4 weights_z = READ_WEIGHTS(weights, column + 2, row + block * row_step);
        const real4 weights_w = READ_WEIGHTS(weights, column + 3, row + block * row_step);
        UNROLLED for (int p = 0; p < PIXELS; p++) {
            sum[block][p] = MULTIPLY_ADD((real4)(pixel[p].x), weights_x, sum[block][p]);
            sum[block][p] = MULTIPLY_ADD((real4)(pixel[p].y), weights_y, sum[block][p]);
            sum[block][p] = MULTIPLY_ADD((real4)(pixel[p].z), weights_z, sum[block][p]);
            sum[block][p] = MULTIPLY_ADD((real4)(pixel[p].w), weights_w, sum[block][p]);
        }
    }
}

// Between start and end of a tile its products are added.
INLINED void start_tile(float4 sum[BLOCKS][PIXELS], read_only image2d_t bias, int first_block)
{
    UNROLLED for (int block = 0; block < BLOCKS; block++) {
#ifdef WEIGHT_BITS
        const float4 start = (float4)(0);
#else
        const float4 start = READ(bias, first_block + block, 0);
#endif
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[block][p] = start;
    }
}

INLINED void end_tile(float4 sum[BLOCKS][PIXELS], read_only image2d_t bias, int first_block, int channels)
{
#ifdef WEIGHT_BITS
    UNROLLED for (int block = 0; block < BLOCKS; block++) {
        const float4 scale = READ_SCALE(bias, first_block + block, channels), start = READ(bias, first_block + block, 0);
        UNROLLED for (int p = 0; p < PIXELS; p++)
            sum[block][p] = sum[block][p] * scale + start;
    }
#endif
}

// y = activation(sum (+ residual)) for the part of the tile that lies in the tensor.
INLINED void write_tile(float4 sum[BLOCKS][PIXELS], read_only image2d_t residual, write_only image2d_t y,
                        int first_block, int first_w, int row, int width, int channels, float act_a, float act_b)
{
    UNROLLED for (int i = 0; i < BLOCKS; i++) {
        UNROLLED for (int p = 0; p < PIXELS; p++) {
            const int block = first_block + i, w = first_w + p;
            if (block < blocks_of(channels) && w < width) {
                float4 pixel = sum[i][p];
#if RESIDUAL
                pixel += READ(residual, block * width + w, row);
#endif
                write_block(y, block, w, row, width, channels, ACTIVATE(pixel, act_a, act_b));
            }
        }
    }
}
#endif
