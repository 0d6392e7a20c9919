/* The definition of rmsnorm. Faster files are tested against this one, bit for bit. */
#include <math.h>

#include "kernels/vec/exp.h"
#include "kernels/implementations.h"

static float sum_of_squares(const float *x, int32_t n_cols)
{
    float lane[PF_LANES] = { 0 };
    for (int32_t k = 0; k < n_cols; k++) lane[k % PF_LANES] = fmaf(x[k], x[k], lane[k % PF_LANES]);
    return pf_tree_sum(lane);
}

void pf_rmsnorm_f32_ref(float *y, const float *x, const float *w, int32_t n_rows, int32_t n_cols, size_t stride,
                        float eps)
{
    for (int32_t m = 0; m < n_rows; m++, x += stride, y += stride) {
        const float scale = 1.0f / sqrtf(sum_of_squares(x, n_cols) / (float)n_cols + eps);
        for (int32_t k = 0; k < n_cols; k++) y[k] = w ? x[k] * scale * w[k] : x[k] * scale;
    }
}
