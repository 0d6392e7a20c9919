/*
 * Which logits may be the largest, told by coarse ones and bounds of their errors. Let
 *
 *       |coarse[i] - logits[i]| <= norm * error[i]
 *
 * Then the largest logit is at least   floor = max over i of coarse[i] - norm * error[i],   and where
 * coarse[i] + norm * error[i] < floor,  logit i is not the largest. What is left is computed as it should be: the vector
 * approximation file of Weber, Schek and Blott (VLDB 1998, section 3), with inner products for distances.
 *
 * model/weights/head_errors.h derives the errors of coarse logits.
 *
 * Any alignment. The same bits on every instruction set, but for which NaN.
 */
#ifndef PF_KERNELS_BOUNDS_H
#define PF_KERNELS_BOUNDS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { PF_BOUNDS_BLOCK = 32 }; /* logits of a mark */

/* Part a row x [n], so that two rows of int8 activations (gemm.h) tell nearly all of it:
 *
 *   whole [n]   x, or x rounded to bf16 (to nearest, ties to even) where `to_bf16`
 *   rest [n]    what int8 loses of it: whole - s * round(whole * (127 / m)),  m = max |whole|, s = m / 127;  -0 of -0
 *
 * Returns at least |whole|, the root of the sum of squares, and at most 1.002 times that; infinity where it is below 2^-40
 * or above 2^60 or no number, and `rest` then means nothing. x may be whole. n <= 131072. */
typedef float pf_bounds_split_fn(const float *x, int32_t n, bool to_bf16, float *whole, float *rest);

/* coarse[i] += rest[i], and the floor of all n, never -0; minus infinity where there is none. A NaN counts for nothing. */
typedef float pf_bounds_floor_fn(float *coarse, const float *rest, const float *error, float norm, int32_t n);

/* marks[i / PF_BOUNDS_BLOCK] = 1 for each i < n that may be the largest: not coarse[i] + norm * error[i] < floor, so a NaN
 * may be. Other marks are left alone. */
typedef void pf_bounds_mark_fn(uint8_t *marks, const float *coarse, const float *error, float norm, float floor,
                               int32_t n);

/* What split returns, of the sum of squares as it was added up. */
static inline float pf_bounds_norm(float sum)
{
    const float norm = sqrtf(sum) * 1.001f;
    return norm >= 0x1p-40f && norm <= 0x1p60f ? norm : INFINITY;
}

typedef struct {
    pf_bounds_split_fn *split;
    pf_bounds_floor_fn *floor;
    pf_bounds_mark_fn *mark;
} pf_bounds;

#endif
