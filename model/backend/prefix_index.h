/*
 * Finds how many blocks of tokens two texts begin with alike, by hashes of their prefixes.
 *
 *      tokens    | block 0       | block 1       | block 2       | rest |
 *      hashes      h(block 0)      h(blocks 0-1)   h(blocks 0-2)              one a whole block, of all tokens up to its end
 *
 * Two prefixes of i blocks that are equal have equal hashes, and so have all shorter ones: the number of blocks that two texts share
 * is found by bisection. Different prefixes may have equal hashes, so the caller compares the tokens of what was found.
 *
 * Pure: no memory of its own, no clock. Threads: the caller's.
 */
#ifndef PF_MODEL_PREFIX_INDEX_H
#define PF_MODEL_PREFIX_INDEX_H

#include <stdint.h>

enum { PF_PREFIX_BLOCK = 16 }; /* tokens: the smallest page of a cache */

/* Of one text. Zero, with memory: nothing hashed. */
typedef struct {
    uint64_t *hashes; /* [blocks of the longest text] */
    int32_t n;        /* that are valid */
} pf_prefix_blocks;

/* Blocks that a text of so many tokens may have. */
static inline int32_t pf_prefix_count_blocks(int32_t n_tokens)
{
    return n_tokens / PF_PREFIX_BLOCK;
}

/* Hash the whole blocks of tokens [n] that are not hashed yet. */
void pf_prefix_hash(pf_prefix_blocks *blocks, const int32_t *tokens, int32_t n);

/* Only the first n tokens are as they were. */
void pf_prefix_cut(pf_prefix_blocks *blocks, int32_t n);

/* The blocks that both texts begin with, as their hashes tell. */
int32_t pf_prefix_count_shared(const pf_prefix_blocks *a, const pf_prefix_blocks *b);

#endif
