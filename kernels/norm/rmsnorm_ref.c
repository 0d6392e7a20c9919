/* The definition of rmsnorm. Faster files are tested against this one, bit for bit. */
#include <math.h>

#include "kernels/exp.h"
#include "kernels/implementations.h"

static float sum_of_squares(const float *x, const float *r, int32_t n_cols)
{
    float lane[PF_LANES] = { 0 };
    for (int32_t k = 0; k < n_cols; k++) {
        const float h = r ? x[k] + r[k] : x[k];
        lane[k % PF_LANES] = fmaf(h, h, lane[k % PF_LANES]);
    }
    return pf_tree_sum(lane);
}

void pf_rmsnorm_f32_ref(float *y, float *h, const float *x, const float *r, const float *w, int32_t n_rows,
                        int32_t n_cols, size_t stride, float eps)
{
    for (int32_t m = 0; m < n_rows; m++) {
        const size_t row = (size_t)m * stride;
        const float *residual = r ? r + row : NULL;
        const float scale = 1.0f / sqrtf(sum_of_squares(x + row, residual, n_cols) / (float)n_cols + eps);
        for (int32_t k = 0; k < n_cols; k++) {
            const float sum = residual ? x[row + (size_t)k] + residual[k] : x[row + (size_t)k];
            if (h) h[row + (size_t)k] = sum;
            y[row + (size_t)k] = sum * scale * w[k];
        }
    }
}
