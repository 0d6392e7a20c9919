/* What all implementations of attention share: the size of their scratch. */
#include "kernels/attn/attn.h"

#include "base/checked.h"
#include "kernels/attn/attn_scratch.h"

size_t pf_attn_scratch_bytes(int32_t head_dim)
{
    const size_t padded = pf_round_up((size_t)head_dim, PF_ATTN_VECTOR);
    /* queries and sums [lines, padded], scores of a tile [tile, block] */
    return (2 * PF_ATTN_LINES * padded + PF_ATTN_TILE * PF_ATTN_BLOCK) * sizeof(float);
}
