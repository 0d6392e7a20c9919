/* The few largest of a vocabulary: top-k, and what a drafter declares. */
#ifndef PF_KERNELS_TOP_H
#define PF_KERNELS_TOP_H

#include <stddef.h>
#include <stdint.h>

/* The `wanted` largest of values [n] among those above `floor`, wanted >= 1: 0 for probabilities, minus infinity for
 * logits. Of equals at the boundary the lowest indices. A NaN is not among them.
 *   ids, top  [min(wanted, n)]  out: indices, ascending, and their values
 *   scratch   pf_top_scratch_bytes, aligned as a float
 * Returns their number: less than wanted where fewer are above the floor. Same result on every instruction set. */
typedef int32_t pf_top_fn(const float *values, int32_t n, int32_t wanted, float floor, int32_t *ids, float *top,
                          void *scratch);

static inline size_t pf_top_scratch_bytes(int32_t n)
{
    return 2 * ((size_t)n + 16) * sizeof(float); /* what is larger than a pivot, and what is not */
}

#endif
