/*
 * Builds a draft tree from the candidates of each position, by best-first search, and learns how often each is right.
 *
 *      position      0         1         2                the committed prefix -- a0 -- b0 -- c0
 *      candidates    a0 a1     b0 b1     c0                                    \     \
 *                                                                              a1 .. b1 ..
 *
 *      P(node)   = P(its candidate is right) * P(parent)        a candidate's by its rank and its position's margin
 *      take it   if P(node) > tokens * row / round              the most probable first: the goodput rises
 *
 * Where one pass has predicted all positions the candidates of a position do not depend on what was chosen before it, so they stand
 * behind every node of the position before: a product tree. Otherwise they are right behind the first candidates alone, and the
 * others are leaves.
 *
 * The margin of a position is how far its first candidate lies above the best other, in nats. What is learnt by margin leans
 * on the mean of all.
 *
 * Pure. Threads: one at a time. Source of the search: Li et al., EAGLE-2, arXiv:2406.16858, section 4; of trees from one pass: PARD,
 * arXiv:2504.18583.
 */
#ifndef PF_DRAFT_CANDIDATE_TREE_H
#define PF_DRAFT_CANDIDATE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

enum {
    PF_TREE_CANDIDATES = 4, /* of a position */
    PF_TREE_MARGINS = 12,   /* histogram bins */
};

/* What the draft says of a position. */
typedef struct {
    float margin; /* NaN: unknown */
    int32_t n;    /* 1 .. PF_TREE_CANDIDATES */
    int32_t ids[PF_TREE_CANDIDATES];
} pf_tree_level;

/* Of each rank, how often that candidate was the target's choice. Zero: nothing learnt. */
typedef struct {
    double judged[PF_TREE_MARGINS], right[PF_TREE_MARGINS][PF_TREE_CANDIDATES];
} pf_tree_shares;

/* The target chose `token` at a position whose candidates these are. */
void pf_tree_observe(pf_tree_shares *shares, const pf_tree_level *level, int32_t token);

/* P that the candidate of this rank is right; falls with the rank. */
double pf_tree_share(const pf_tree_shares *shares, const pf_tree_level *level, int32_t rank);

typedef struct {
    bool is_product;         /* every candidate stands behind every node of the position before it */
    double round_ns, row_ns; /* of a round without draft tokens, and what a node adds to it; 0: not known, or free */
    int32_t most;            /* nodes, 1 .. PF_MAX_DRAFT_TOKENS */
} pf_tree_plan;

/* The tree of n_levels (1 .. PF_MAX_DRAFT_TOKENS) positions: tokens and parents [plan.most], as proto/tree.h has them. The first *n_chain
 * nodes are first candidates, each behind the one before. Returns the number of nodes, 1 at least. */
int32_t pf_tree_build(const pf_tree_shares *shares, const pf_tree_level *levels, int32_t n_levels,
                      const pf_tree_plan *plan, int32_t *tokens, int32_t *parents, int32_t *n_chain);

#endif
