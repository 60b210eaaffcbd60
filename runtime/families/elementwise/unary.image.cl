// Element-wise functions of a channel-major image; UNARY and the meaning of alpha and beta are those of runtime/semantics/unary.py.
// One work item computes one pixel of a block: ids (block, w, n*height + h).

kernel void unary(read_only image2d_t x, write_only image2d_t y, int batch, int channels, int height, int width,
                  float alpha, float beta)
{
    const int block = get_global_id(0), w = get_global_id(1), row = get_global_id(2);
    if (block >= blocks_of(channels) || w >= width || row >= batch * height)
        return;
    const float4 pixel = READ(x, block * width + w, row);
    write_block(y, block, w, row, width, channels, APPLY_UNARY(pixel, alpha, beta));
}
