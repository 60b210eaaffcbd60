#include <string.h>

void take(const float *x, const int32_t *rows, const float *bias, float *y, int32_t length, int64_t first, int64_t end) {
    for (int64_t row = first; row < end; row++) {
        memcpy(y + row * length, x + (int64_t)rows[row] * length, (size_t)length * sizeof *y);
        for (int32_t i = 0; bias != NULL && i < length; i++) y[row * length + i] += bias[i];
    }
}
