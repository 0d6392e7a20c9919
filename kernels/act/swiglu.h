/*
 * The gate of a feed-forward block.
 *
 *   out[m, i] = silu(gate[m, i]) * up[m, i],    silu(x) = x / (1 + exp(-x))
 *
 * Source: Shazeer, arXiv:2002.05202, equation 6.
 */
#ifndef PF_KERNELS_SWIGLU_H
#define PF_KERNELS_SWIGLU_H

#include <stddef.h>
#include <stdint.h>

/*   out       [n_rows, n_cols]  f32, rows out_stride elements apart; may be gate or up itself (with its stride)
 *   gate, up  [n_rows, n_cols]  f32, rows in_stride elements apart (two halves of one product's rows)
 * exp is that of kernels/vec/exp.h (2 ulp), the rest is rounded operation by operation: an element's bits depend on
 * its gate and up alone, not on its place, the row's length or the instruction set.
 * silu(-infinity) is NaN, as in PyTorch; a NaN gives NaN at its own element; denormals are kept. */
typedef void pf_swiglu_fn(float *out, size_t out_stride, const float *gate, const float *up, size_t in_stride,
                          int32_t n_rows, int32_t n_cols);

#endif
