/*
 * Recomputes the best of a row of coarse logits exactly.
 *
 *   of the maxima  max(logits[b], logits[b + 64], logits[b + 128], ...)  of 64 blocks, the eighth largest is the bound:
 *   at least the eight largest logits reach it, and seldom many more. Each of the first 16 that do becomes
 *
 *       logits[id] = sum over d of x[d] * rows[id, d]
 *
 * So an LM head may be multiplied in four bits and its candidates be ranked by its rows in bf16: candidate generation and
 * ranking, as in search (Guo et al., arXiv:1908.10396, section 1).
 */
#ifndef PF_KERNELS_RESCORE_H
#define PF_KERNELS_RESCORE_H

#include <stdint.h>

enum { PF_RESCORE_BLOCKS = 64, PF_RESCORE_RANK = 8, PF_RESCORE_MOST = 16 };

/*   logits  [n]         f32, in and out
 *   x       [n_cols]    f32
 *   rows    [n, n_cols] bf16
 * Any alignment. "First": in order of index. The bound is minus infinity where fewer than eight blocks have a larger
 * logit. A NaN reaches nothing and stays.
 * Order: product d goes to partial sum d mod 16 by fma, in order of d; the 16 are added 8 apart, then 4, 2, 1. Same bits on
 * every instruction set. */
typedef void pf_rescore_fn(float *logits, int32_t n, const float *x, const uint16_t *rows, int32_t n_cols);

#endif
