/*
 * Root-mean-square normalisation of rows.
 *
 *   y[m, k] = x[m, k] * (1 / sqrt(mean_k(x[m, k]^2) + eps)) * w[k]
 *
 * Source: Zhang and Sennrich, arXiv:1910.07467, equation 4.
 */
#ifndef PF_KERNELS_RMSNORM_H
#define PF_KERNELS_RMSNORM_H

#include <stddef.h>
#include <stdint.h>

/*   y  [n_rows, n_cols]  f32, out; overlaps nothing, or is x itself
 *   x  [n_rows, n_cols]  f32
 *   w  [n_cols]          f32, or NULL: ones
 * Rows are `stride` elements apart in both, of any alignment. n_cols is a multiple of nothing.
 * Order: element k goes to partial sum k mod 16 by fma, in order of k; the 16 sums are added pairwise, 8 apart, then 4,
 * 2, 1. Every implementation keeps that order, so a row's bits depend on that row alone, and on no instruction set.
 * Denormals are kept. A NaN in a row makes that row's y NaN; an infinity makes y NaN there and 0 where x is finite
 * (the squares of values above 1.8e19 overflow: the same zero). Other rows are untouched. */
typedef void pf_rmsnorm_fn(float *y, const float *x, const float *w, int32_t n_rows, int32_t n_cols, size_t stride,
                           float eps);

#endif
