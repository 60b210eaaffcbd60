// Local response normalisation across channels: y[p][c] = x[p][c] / (bias + alpha/size * sum of x[p][d]^2)^beta, the
// sum over the channels d from c - floor((size-1)/2) to c + ceil((size-1)/2) that exist.
// One work item computes VECTOR channels of a pixel: ids (channel / VECTOR, pixel).
IN_VECTORS
kernel void lrn(global const storage *x, int x_offset, int x_stride, global storage *y, int y_offset, int y_stride,
                int pixels, int channels, int size, float alpha, float beta, float bias)
{
    const int channel = get_global_id(0) * VECTOR, pixel = get_global_id(1);
    if (channel >= channels || pixel >= pixels)
        return;
    x += x_offset + pixel * x_stride;
    const int exist = channels - channel;
    const int before = (size - 1) / 2, behind = size / 2;
    lanes sum;
    sum.vector = 0.0f;
    if (channel >= before && channel + VECTOR + behind <= channels) {
        for (int d = -before; d <= behind; d++) {
            const floats v = LOAD_VECTOR(x + channel + d);
            sum.vector += v * v;
        }
    } else {
        for (int i = 0; i < VECTOR; i++) {
            const int first = max(channel + i - before, 0), last = min(channel + i + behind, channels - 1);
            for (int d = first; d <= last; d++)
                sum.element[i] += LOAD(x + d) * LOAD(x + d);
        }
    }
    const floats base = bias + alpha / size * sum.vector;
    const floats v = load_some(x + channel, exist) * exp(-beta * log(base));
    store_some(v, y + y_offset + pixel * y_stride + channel, exist);
}
