#include "factor.h"

kernel void scaled_image(read_only image2d_t x, write_only image2d_t y, int rows, int channels, int width)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block < blocks_of(channels) && w < width && row < rows)
        write_block(y, block, w, row, width, channels, READ(x, block * width + w, row) * FACTOR);
}
