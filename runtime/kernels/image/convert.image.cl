// Between buffers and channel-major images. An element (n, c, h, w) of the buffer is at
// offset + n*stride_n + c*stride_c + h*stride_h + w*stride_w, so that NCHW tensors and NHWC views are covered alike.
// SRC_F32=1, DST_F32=1: the buffer holds float whatever the precision (inputs and outputs of a plan).
// One work item converts one pixel of the image: ids (block, w, n*height + h).

#if PRECISION == 0 || SRC_F32 || DST_F32
#define SCALAR float
#define LOAD_SCALAR(buffer, index) (buffer)[index]
#define STORE_SCALAR(value, buffer, index) (buffer)[index] = (value)
#else
#define SCALAR half
#define LOAD_SCALAR(buffer, index) vload_half(index, buffer)
#define STORE_SCALAR(value, buffer, index) vstore_half(value, index, buffer)
#endif

kernel void buffer_to_image(global const SCALAR *x, int x_offset, write_only image2d_t y, int batch, int channels,
                            int height, int width, int stride_n, int stride_c, int stride_h, int stride_w)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    const int first = x_offset + row / height * stride_n + row % height * stride_h + w * stride_w;
    float lanes[4];
    UNROLLED for (int i = 0; i < 4; i++) {
        const int channel = min(block * 4 + i, channels - 1);
        lanes[i] = LOAD_SCALAR(x, first + channel * stride_c);
    }
    write_block(y, block, w, row, width, channels, VECTOR_OF(lanes));
}

kernel void image_to_buffer(read_only image2d_t x, global SCALAR *y, int y_offset, int batch, int channels,
                            int height, int width, int stride_n, int stride_c, int stride_h, int stride_w)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    const int first = y_offset + row / height * stride_n + row % height * stride_h + w * stride_w;
    const float4 pixel = READ(x, block * width + w, row);
    const float lanes[4] = {pixel.x, pixel.y, pixel.z, pixel.w};
    UNROLLED for (int i = 0; i < 4; i++)
        if (block * 4 + i < channels)
            STORE_SCALAR(lanes[i], y, first + (block * 4 + i) * stride_c);
}
