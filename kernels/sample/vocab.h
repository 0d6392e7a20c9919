/* What sampling does over a whole vocabulary. */
#ifndef PF_KERNELS_VOCAB_H
#define PF_KERNELS_VOCAB_H

#include <stdint.h>

/* The lowest index of the largest of logits [n], n >= 1. A NaN never wins; -1 when all are NaN. All equal to minus
 * infinity: 0. Plus and minus zero are equal. */
typedef int32_t pf_argmax_fn(const float *logits, int32_t n);

/* The lowest index of logits [n] that is NaN or plus infinity, n >= 1; -1: none is. */
typedef int32_t pf_find_invalid_fn(const float *logits, int32_t n);

/* probabilities[i] = exp((logits[i] - top) * (1 / temperature)) / sum,  top = the largest logit.
 *   logits, probabilities  [n]  f32; may be the same
 *   temperature            > 0, finite
 * Returns top. exp is that of kernels/vec/exp.h; the sum is kept in double: element i goes to partial sum i mod 16, the 16
 * are added 8 apart, then 4, 2, 1; then each is multiplied by the float nearest to 1 / sum. Same bits on every
 * instruction set.
 * A NaN logit counts as minus infinity: probability 0. Where the top is plus infinity, the infinite ones share equally.
 * Where no logit is above minus infinity all are 0 and minus infinity is returned. */
typedef float pf_softmax_fn(float *probabilities, const float *logits, int32_t n, float temperature);

#endif
