/* What all implementations of attention share: the size of their scratch. */
#include "kernels/attn/attn.h"

#include "base/checked.h"
#include "kernels/attn/attn_scratch.h"

size_t pf_attn_scratch_bytes(int32_t head_dim)
{
    const size_t padded = pf_round_up((size_t)head_dim, PF_ATTN_VECTOR);
    /* of each line: its query, its sums, the scores of a block, sixteen sums of weights, what segments have given */
    const size_t lines = PF_ATTN_LINES * (3 * padded + PF_ATTN_BLOCK + PF_ATTN_VECTOR);
    /* a block's keys and values on one path of a tree, values elsewhere, and those of 16 lines, weighted; what is not f32
     * takes no more */
    const size_t blocks = (2 * PF_ATTN_BLOCK + PF_ATTN_BLOCK / 2 + 16) * padded;
    const size_t given = 2 * (PF_ATTN_LINES + PF_ATTN_VECTOR); /* maximum and sum of each line, by vectors */
    return (lines + blocks + given) * sizeof(float);
}
