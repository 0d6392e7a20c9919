/*
 * Layer normalisation of rows.
 *
 *   y[m, k] = (x[m, k] - mean_m) * (1 / sqrt(variance_m + eps)) * w[k] + b[k]
 *   mean_m = mean_k(x[m, k]),   variance_m = mean_k((x[m, k] - mean_m)^2)
 *
 * Source: Ba, Kiros and Hinton, arXiv:1607.06450, equation 4.
 */
#ifndef PF_KERNELS_LAYERNORM_H
#define PF_KERNELS_LAYERNORM_H

#include <stddef.h>
#include <stdint.h>

/*   y  [n_rows, n_cols]  f32, out; overlaps nothing, or is x itself
 *   x  [n_rows, n_cols]  f32
 *   w  [n_cols]          f32, or NULL: ones
 *   b  [n_cols]          f32, or NULL: zeros
 * Rows are `stride` elements apart in both, of any alignment. n_cols is a multiple of nothing.
 * Order: the mean first, then the variance of the differences from it. In both element k goes to partial sum k mod 16, in order
 * of k (the squares by fma); the 16 sums are added pairwise, 8 apart, then 4, 2, 1. w and b are applied by one rounding each.
 * Every implementation keeps that order, so a row's bits depend on that row alone, and on no instruction set.
 * Denormals are kept. A NaN or an infinity in a row makes that row's y NaN. Where the squares overflow (differences above 1.8e19)
 * a row of finite numbers becomes b; where its sum overflows, NaN. Other rows are untouched. */
typedef void pf_layernorm_fn(float *y, const float *x, const float *w, const float *b, int32_t n_rows, int32_t n_cols,
                             size_t stride, float eps);

#endif
