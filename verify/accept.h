/*
 * Decides which draft tokens are accepted and which token the target adds.
 *
 * Pure functions: no state, no I/O, no allocation. Randomness comes in as uniforms, so a round can be replayed and
 * tested exactly.
 *
 * A row of the target is expensive (a softmax over 150,000 logits), so rows are requested by callback: one by one along the
 * accepted path, each once, and none behind the first rejection, unless a function says otherwise. Row 0 decides the token behind the prefix, row 1 + i the token
 * behind draft token i. If a row holds no number, the token before it is the last one: it is `next`.
 */
#ifndef PF_VERIFY_ACCEPT_H
#define PF_VERIFY_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

/* A proposal in memory. */
typedef struct {
    const int32_t *tokens;  /* [n] within the vocabulary */
    const int32_t *parents; /* [n] a tree (proto/tree.h), for pf_accept_exact and pf_accept_tree alone; NULL: a chain */
    const pf_declared *declared; /* [n], ids within the vocabulary; or NULL: tokens only */
    int32_t n;
} pf_drafted;

/* What a round commits: the n_accepted accepted tokens (of a chain the first ones), then `next`. */
typedef struct {
    int32_t n_accepted; /* 0 .. n */
    int32_t next; /* the correction if a draft token was rejected, else the bonus token; -1: row 0 holds no number */
} pf_acceptance;

/* The target's own choice at a row behind n_kept accepted tokens: the argmax of its logits (greedy), or its Gumbel-max draw with
 * the noise of that position (coupled, arXiv:2408.07978). -1: it has none. */
typedef int32_t pf_accept_best(void *rows, int32_t row, int32_t n_kept);

/* Accepts the longest path that equals the target's own choices. path [n]: out, the indices of the accepted tokens, ascending.
 * The result equals plain decoding for any draft. */
pf_acceptance pf_accept_exact(const pf_drafted *drafted, pf_accept_best *best, void *rows, int32_t *path);

/* What a row decides of the draft token behind it. */
typedef struct {
    bool is_kept;
    int32_t
        next; /* the correction where it is not kept, or the bonus behind the last one; -1: the row holds no number */
} pf_accept_decision;
typedef pf_accept_decision pf_accept_decide(void *rows, int32_t row);

/* Accepts the leading tokens of a chain that are kept; row n keeps none. path [n] as above. */
pf_acceptance pf_accept_chain(const int32_t *tokens, int32_t n, pf_accept_decide *decide, void *rows, int32_t *path);

/* p [n_vocab] of a row, with the request's temperature and filters, summing to 1; borrowed until the next request. NULL:
 * it holds no number. */
typedef const float *pf_accept_row(void *rows, int32_t row);

/* In [0, 1), independent of each other, of other positions' and of the draft's draws. */
typedef struct {
    float keep, next; /* whether the token is accepted; the draw of the correction or the bonus */
} pf_accept_uniforms;

/* Speculative sampling of a chain: the committed tokens have exactly the target's distribution.
 *   declared    exactly the distribution that token i was drawn from: q[i], 0 for ids that are not listed
 *   uniforms    [n + 1]
 *   q           [n_vocab] scratch, all zero before and after
 *   path        [n] as above
 * Token x at position i is accepted with probability min(1, p[i][x] / q[i][x]); at the first rejection `next` is drawn from
 * the residual max(0, p - q), renormalised; if all are accepted, from p[n]. A token with q <= 0
 * is rejected, and `next` comes from the residual (a well-formed proposal has no such token).
 * Source: Leviathan, Kalman, Matias, arXiv:2211.17192, section 2.3; Chen et al., arXiv:2302.01318, algorithm 2.
 *
 * A token without a distribution counts as a one-hot q: accepted with probability p[i][x], and the residual is p
 * without that token, renormalised. Exact for any token that was chosen independently of the uniforms. */
pf_acceptance pf_accept_rejection(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, void *rows,
                                  const pf_accept_uniforms *uniforms, float *q, int32_t *path);

/* Block verification of a chain: the same distribution, and never fewer accepted tokens in expectation, since the tokens are judged
 * together.
 *   uniforms    [n + 1] of this round alone: those behind the accepted tokens are used too, so no later round may use them
 *   r           [n_vocab] scratch
 * With w[0] = 1 and w[i] = min(1, w[i-1] p[x] / q[x]) of the i-th token x, the first i tokens pass with probability
 * R / (R + 1 - w[i]), where R is the sum of max(0, w[i] p - q) of the row behind them, and all n with w[n]. The longest part that passes
 * is accepted; `next` is drawn from max(0, w[i] p - q), renormalised, behind all n from p[n].
 * Source: Sun et al., arXiv:2403.10444, algorithm 2. */
pf_acceptance pf_accept_block(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, void *rows,
                              const pf_accept_uniforms *uniforms, float *r, int32_t *path);

/* The uniform of a use at the row behind n_kept accepted tokens: 0 is the draw of `next`, 1 + i whether its i-th child is kept. */
typedef float pf_accept_uniform(void *rows, int32_t n_kept, int32_t use);

/* Speculative sampling of a tree: the committed tokens have exactly the target's distribution. The children of a node are tried in order,
 * each against what the ones before have left of p: with r = p at first, child x is accepted with probability min(1, r[x] / q[x]),
 * else r becomes max(0, r - q), renormalised; `next` is drawn from what is left behind the last child.
 *   declared    exactly the distribution that the token was drawn from, given the text before it and its siblings before it: of
 *               children that are drawn without replacement, what these leave of q, renormalised
 *   r           [n_vocab] scratch
 * Without distributions each token counts as a one-hot q: exact for any tokens that were chosen independently of the uniforms, as the
 * likeliest of a draft.
 * Source: Miao et al., arXiv:2305.09781, section 4.3; Jeon et al., arXiv:2402.14160, section 4.1 (without replacement). */
pf_acceptance pf_accept_tree(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, pf_accept_uniform *uniform,
                             void *rows, float *r, int32_t *path);

/* Traversal verification of a tree: the same distribution as pf_accept_tree, and more accepted tokens where paths are judged better as a
 * whole. From the leaves to the root, in post-order, a node v is accepted, with its path, with probability w[v]; else it is taken out of
 * its parent u:
 *
 *      w[v] = min(1, w[u] r[u](x) / q(x)),  w[root] = 1,  r[u] = p[u] at first                       x the token of v
 *      R = sum of max(0, w[u] r[u] - q);  r[u] = max(0, w[u] r[u] - q) / R;  w[u] = R / (R + 1 - w[u])        v is taken out
 *
 * and `next` is drawn from r of the accepted node. On a chain it is block verification. Rows are requested of nodes with children, and
 * again of the accepted one.
 *   declared    as pf_accept_tree
 *   uniforms    [n + 1] of this round alone, as pf_accept_block: keep of node i, next behind node i - 1
 *   r           [n_vocab] scratch
 *   at          [n * PF_MAX_DECLARED] scratch
 * Source: Weng et al., arXiv:2505.12398, algorithm 2. */
pf_acceptance pf_accept_traversal(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, void *rows,
                                  const pf_accept_uniforms *uniforms, float *r, float *at, int32_t *path);

/* Typical acceptance: lossy. A token x behind a row is kept where p(x) > min(epsilon, delta exp(-H(p))), H the entropy of the row in nats;
 * the longest path of which all tokens are kept is accepted, of equally long ones the first, and `next` is drawn from p behind it.
 * Distributions that are declared do not matter. Rows are requested of accepted nodes, and again of the last one.
 * Source: Cai et al., arXiv:2401.10774, section 2.3.1. */
pf_acceptance pf_accept_typical(const pf_drafted *drafted, int32_t n_vocab, pf_typical thresholds, pf_accept_row *p,
                                pf_accept_uniform *uniform, void *rows, int32_t *path);

/* Synthetic acceptance, for benchmarks: the text is not the target's. Whatever the tokens are, the i-th of a chain is accepted with
 * probability rates[i] where those before it are, and `next` is the target's own choice there, the rejected token included; of a tree,
 * first children are the chain.
 *   rates [PF_MAX_DRAFT_TOKENS], 0 .. 1
 * As the "synthetic" rejection sampling of vLLM, which serves the same purpose. */
pf_acceptance pf_accept_synthetic(const pf_drafted *drafted, const float *rates, pf_accept_uniform *uniform,
                                  pf_accept_best *best, void *rows, int32_t *path);

#endif
