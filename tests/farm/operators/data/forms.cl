#include "factor.h"

kernel void scaled_view(global const storage *x, int x_offset, int x_stride, global storage *y, int y_offset,
                        int y_stride, int pixels, int channels)
{
    const int channel = get_global_id(0), pixel = get_global_id(1);
    if (channel < channels && pixel < pixels)
        STORE(LOAD(x + x_offset + pixel * x_stride + channel) * FACTOR, y + y_offset + pixel * y_stride + channel);
}
