/*
 * Acceptance of draft tokens: which are kept, and what the target adds.
 *
 * Pure functions: no state, no I/O, no allocation. Randomness comes in as uniforms, so a round can be replayed and
 * tested exactly.
 *
 * The target's rows are dear (a softmax over 150,000 logits), so they are not passed but asked for: one by one, along what is
 * kept, none twice, and none behind the first refusal. Row 0 decides what comes behind the prefix, row 1 + i what comes behind
 * draft token i. Where a row decides nothing, as it holds no number, the token before it is the last: it is `next`.
 */
#ifndef PF_VERIFY_ACCEPT_H
#define PF_VERIFY_ACCEPT_H

#include <stdint.h>

#include "proto/messages.h"

/* A proposal as it lies in memory. */
typedef struct {
    const int32_t *tokens;       /* [n] within the vocabulary */
    const int32_t *parents;      /* [n] a tree (proto/tree.h), for pf_accept_exact alone; NULL: a chain */
    const pf_declared *declared; /* [n], ids within the vocabulary; or NULL: tokens only */
    int32_t n;
} pf_drafted;

/* What a round commits: the n_accepted tokens that are kept, of a chain the first ones, then `next`. */
typedef struct {
    int32_t n_accepted; /* 0 .. n */
    int32_t next; /* the correction where a draft token was refused, else the bonus token; -1: row 0 decides nothing */
} pf_acceptance;

/* The target's own choice at a row behind n_kept kept tokens: the argmax of its logits (greedy), or its Gumbel-max draw with
 * the noise of that position (coupled, arXiv:2408.07978). -1: it has none. */
typedef int32_t pf_accept_best(void *rows, int32_t row, int32_t n_kept);

/* Keep the longest path that the target would have chosen itself. path [n]: out, the tokens that are kept, as indices,
 * ascending. The result is what plain decoding gives, whatever the draft. */
pf_acceptance pf_accept_exact(const pf_drafted *drafted, pf_accept_best *best, void *rows, int32_t *path);

/* p [n_vocab] of a row, with the request's temperature and filters, summing to 1; borrowed until the next is asked for. NULL:
 * it has none. */
typedef const float *pf_accept_row(void *rows, int32_t row);

/* In [0, 1), independent of each other, of other positions' and of the draft's draws. */
typedef struct {
    float keep, next; /* whether the token is kept; what is drawn in its place, or behind the last */
} pf_accept_uniforms;

/* Speculative sampling of a chain: the committed tokens have exactly the target's distribution.
 *   declared    what token i was drawn from, and not one like it: q[i], 0 where it declares nothing
 *   uniforms    [n + 1]
 *   q           [n_vocab] room, all zero, and again afterwards
 *   path        [n] as above
 * Token x at position i is kept with probability min(1, p[i][x] / q[i][x]); at the first refusal `next` is drawn from
 * the residual max(0, p - q), renormalised; if all are kept, from p[n]. A token whose own q is not positive is
 * refused and the residual serves (a peer that lies loses speed; a well-formed proposal never has one).
 * Source: Leviathan, Kalman, Matias, arXiv:2211.17192, section 2.3; Chen et al., arXiv:2302.01318, algorithm 2.
 *
 * Tokens without a distribution each stand for a q that is one-hot at it: kept with probability p[i][x], and the residual is p
 * without that token, renormalised. Exact however it was chosen, as long as the choice did not look at the uniforms. */
pf_acceptance pf_accept_rejection(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, void *rows,
                                  const pf_accept_uniforms *uniforms, float *q, int32_t *path);

#endif
