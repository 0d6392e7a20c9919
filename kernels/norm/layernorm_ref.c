/* The definition of layernorm. Faster files are tested against this one, bit for bit. */
#include <math.h>

#include "kernels/vec/exp.h"
#include "kernels/implementations.h"

static float mean_of(const float *x, int32_t n_cols)
{
    float lane[PF_LANES] = { 0 };
    for (int32_t k = 0; k < n_cols; k++) lane[k % PF_LANES] += x[k];
    return pf_tree_sum(lane) / (float)n_cols;
}

static float variance_of(const float *x, float mean, int32_t n_cols)
{
    float lane[PF_LANES] = { 0 };
    for (int32_t k = 0; k < n_cols; k++) {
        const float difference = x[k] - mean;
        lane[k % PF_LANES] = fmaf(difference, difference, lane[k % PF_LANES]);
    }
    return pf_tree_sum(lane) / (float)n_cols;
}

void pf_layernorm_f32_ref(float *y, const float *x, const float *w, const float *b, int32_t n_rows, int32_t n_cols,
                          size_t stride, float eps)
{
    for (int32_t m = 0; m < n_rows; m++, x += stride, y += stride) {
        const float mean = mean_of(x, n_cols), scale = 1.0f / sqrtf(variance_of(x, mean, n_cols) + eps);
        for (int32_t k = 0; k < n_cols; k++) {
            y[k] = (x[k] - mean) * scale;
            if (w) y[k] *= w[k];
            if (b) y[k] += b[k];
        }
    }
}
