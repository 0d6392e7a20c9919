#include "model/backend/prefix_index.h"

#include "base/checked.h"
#include "base/hash.h"

void pf_prefix_hash(pf_prefix_blocks *blocks, const int32_t *tokens, int32_t n)
{
    uint64_t hash = blocks->n > 0 ? blocks->hashes[blocks->n - 1] : 0;
    for (; blocks->n < pf_prefix_count_blocks(n); blocks->n++) {
        const int32_t *block = tokens + blocks->n * PF_PREFIX_BLOCK;
        for (int32_t i = 0; i < PF_PREFIX_BLOCK; i++) hash = pf_hash_mix(hash ^ (uint32_t)block[i]);
        blocks->hashes[blocks->n] = hash;
    }
}

void pf_prefix_cut(pf_prefix_blocks *blocks, int32_t n)
{
    blocks->n = pf_min(blocks->n, pf_prefix_count_blocks(n));
}

int32_t pf_prefix_count_shared(const pf_prefix_blocks *a, const pf_prefix_blocks *b)
{
    int32_t shared = 0, end = pf_min(a->n, b->n);
    while (shared < end) { /* the first `shared` blocks are equal, the first `end` + 1 are not */
        const int32_t middle = shared + (end - shared + 1) / 2;
        if (a->hashes[middle - 1] == b->hashes[middle - 1])
            shared = middle;
        else
            end = middle - 1;
    }
    return shared;
}
