#include <math.h>

/* Gated activation: y = x * alpha * sigmoid(gate), for the elements from `first` to `end`. */
void gated(const float *x, const float *gate, float *y, float alpha, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++)
        y[i] = x[i] * alpha / (1.0f + expf(-gate[i]));
}
