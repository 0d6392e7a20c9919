/* rmsnorm in vectors of sixteen: the sixteen partial sums of the definition are the lanes of one vector. */
#include <math.h>

#include "kernels/vec/v16.h"

PF_V16 void rmsnorm_row(float *y, const float *x, const float *w, bool weighted, int32_t n_cols, float eps)
{
    const int32_t whole = n_cols / 16 * 16, tail = n_cols - whole;
    pf_v16 lanes = pf_v16_set(0.0f);
    for (int32_t k = 0; k < whole; k += 16) {
        const pf_v16 v = pf_v16_load(x + k);
        lanes = pf_v16_fma(v, v, lanes);
    }
    if (tail) {
        const pf_v16 v = pf_v16_load_first(x + whole, tail);
        lanes = pf_v16_fma(v, v, lanes);
    }

    const pf_v16 scale = pf_v16_set(1.0f / sqrtf(pf_v16_tree_sum(lanes) / (float)n_cols + eps));
    for (int32_t k = 0; k < whole; k += 16) {
        const pf_v16 v = pf_v16_mul(pf_v16_load(x + k), scale);
        pf_v16_store(y + k, weighted ? pf_v16_mul(v, pf_v16_load(w + k)) : v);
    }
    if (tail) {
        const pf_v16 v = pf_v16_mul(pf_v16_load_first(x + whole, tail), scale);
        pf_v16_store_first(y + whole, weighted ? pf_v16_mul(v, pf_v16_load_first(w + whole, tail)) : v, tail);
    }
}

void PF_FOR_ISA(pf_rmsnorm_f32)(float *y, const float *x, const float *w, int32_t n_rows, int32_t n_cols, size_t stride,
                                float eps)
{
    for (int32_t m = 0; m < n_rows; m++, x += stride, y += stride)
        if (w)
            rmsnorm_row(y, x, w, true, n_cols, eps);
        else
            rmsnorm_row(y, x, w, false, n_cols, eps);
}
