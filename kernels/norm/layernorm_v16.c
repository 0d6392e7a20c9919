/* layernorm in vectors of sixteen: the sixteen partial sums of the definition are the lanes of one vector. */
#include <math.h>

#include "kernels/vec/v16.h"

PF_V16 float mean_of(const float *x, int32_t whole, int32_t tail)
{
    pf_v16 lanes = pf_v16_set(0.0f);
    for (int32_t k = 0; k < whole; k += 16) lanes = pf_v16_add(lanes, pf_v16_load(x + k));
    if (tail) lanes = pf_v16_add(lanes, pf_v16_load_first(x + whole, tail));
    return pf_v16_tree_sum(lanes) / (float)(whole + tail);
}

PF_V16 float variance_of(const float *x, pf_v16 mean, int32_t whole, int32_t tail)
{
    pf_v16 lanes = pf_v16_set(0.0f);
    for (int32_t k = 0; k < whole; k += 16) {
        const pf_v16 difference = pf_v16_sub(pf_v16_load(x + k), mean);
        lanes = pf_v16_fma(difference, difference, lanes);
    }
    if (tail) { /* lanes past the end differ by 0 */
        const pf_v16 difference = pf_v16_sub(pf_v16_load_first_or(x + whole, tail, mean), mean);
        lanes = pf_v16_fma(difference, difference, lanes);
    }
    return pf_v16_tree_sum(lanes) / (float)(whole + tail);
}

/* n: elements to load of w and b, 16 or the tail. */
PF_V16 pf_v16 normed(pf_v16 x, pf_v16 mean, pf_v16 scale, const float *w, const float *b, int32_t n)
{
    pf_v16 v = pf_v16_mul(pf_v16_sub(x, mean), scale);
    if (w) v = pf_v16_mul(v, n == 16 ? pf_v16_load(w) : pf_v16_load_first(w, n));
    if (b) v = pf_v16_add(v, n == 16 ? pf_v16_load(b) : pf_v16_load_first(b, n));
    return v;
}

PF_V16 void layernorm_row(float *y, const float *x, const float *w, const float *b, int32_t n_cols, float eps)
{
    const int32_t whole = n_cols / 16 * 16, tail = n_cols - whole;
    const pf_v16 mean = pf_v16_set(mean_of(x, whole, tail));
    const pf_v16 scale = pf_v16_set(1.0f / sqrtf(variance_of(x, mean, whole, tail) + eps));
    for (int32_t k = 0; k < whole; k += 16)
        pf_v16_store(y + k, normed(pf_v16_load(x + k), mean, scale, w ? w + k : NULL, b ? b + k : NULL, 16));
    if (tail) {
        const pf_v16 v =
            normed(pf_v16_load_first(x + whole, tail), mean, scale, w ? w + whole : NULL, b ? b + whole : NULL, tail);
        pf_v16_store_first(y + whole, v, tail);
    }
}

void PF_FOR_ISA(pf_layernorm_f32)(float *y, const float *x, const float *w, const float *b, int32_t n_rows,
                                  int32_t n_cols, size_t stride, float eps)
{
    for (int32_t m = 0; m < n_rows; m++)
        layernorm_row(y + (size_t)m * stride, x + (size_t)m * stride, w, b, n_cols, eps);
}
