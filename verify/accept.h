/*
 * Acceptance of draft tokens: which are kept, and what the target adds.
 *
 * Pure functions: no state, no I/O, no allocation. Randomness comes in as uniforms, so a round can be replayed and
 * tested exactly.
 *
 * The rule for a whole chain is the rule for one position, repeated until something is refused. A caller whose rows
 * are dear (a softmax over 150,000 logits) takes the positions one by one and makes no row that is not looked at.
 */
#ifndef PF_VERIFY_ACCEPT_H
#define PF_VERIFY_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>

/* What a round commits: the n_accepted tokens that are kept, of a chain the first ones, then `next`. */
typedef struct {
    int32_t n_accepted; /* 0 .. n_draft */
    int32_t next;       /* the correction where a draft token was refused, else the bonus token */
} pf_acceptance;

/* Keep the longest path that the target would have chosen itself.
 *   draft    [n_draft]        tokens proposed
 *   parents  [n_draft]        a tree of them (proto/tree.h), or NULL: a chain
 *   best     [n_draft + 1]    the target's own choice behind the prefix, then behind each token: the argmax of its logits
 *                             (greedy), or its Gumbel-max draw with the noise of that position (coupled, arXiv:2408.07978)
 *   path     [n_draft]        out: the n_accepted tokens that are kept, as indices into draft
 * The result is what plain decoding gives, whatever the draft. */
pf_acceptance pf_accept_exact(const int32_t *draft, const int32_t *parents, int32_t n_draft, const int32_t *best,
                              int32_t *path);

/* Speculative sampling: the committed tokens have exactly the target's distribution.
 *   draft    [n_draft]               token i was drawn from q[i]
 *   q        [n_draft, n_vocab]      the distribution that it was drawn from, not one like it; rows sum to 1
 *   p        [n_draft + 1, n_vocab]  the target's, with the request's temperature and filters; rows sum to 1
 *   uniform  [n_draft + 1]           in [0, 1), independent of each other and of the draft's draws; the last draws `next`
 * Token x at position i is kept with probability min(1, p[i][x] / q[i][x]); at the first refusal `next` is drawn from
 * the residual max(0, p - q), renormalised; if all are kept, from p[n_draft]. A token whose own q is not positive is
 * refused and the residual serves (a peer that lies loses speed; a well-formed proposal never has one).
 * Source: Leviathan, Kalman, Matias, arXiv:2211.17192, section 2.3; Chen et al., arXiv:2302.01318, algorithm 2. */
pf_acceptance pf_accept_rejection(const int32_t *draft, int32_t n_draft, int32_t n_vocab, const float *q,
                                  const float *p, const float *uniform);

/* The same for tokens without a distribution: each stands for a q that is one-hot at it, so it is kept with
 * probability p[i][draft[i]], and the residual is p without that token, renormalised. Exact however it was chosen,
 * as long as the choice did not look at the uniforms. */
pf_acceptance pf_accept_tokens(const int32_t *draft, int32_t n_draft, int32_t n_vocab, const float *p,
                               const float *uniform);

/* One position of the two rules above.
 *   token  0 <= token < n_vocab (asserted)
 *   q      [n_vocab], or NULL for the one-hot at token
 *   p      [n_vocab]
 * Returns whether the token is kept, by `uniform`. If not, *next is the correction, drawn from the residual by
 * `uniform_next`; else *next is untouched. */
bool pf_accept_token(int32_t token, int32_t n_vocab, const float *q, const float *p, float uniform, float uniform_next,
                     int32_t *next);

/* A token from p [n_vocab], by inverse transform: the bonus. Never one whose p is 0. */
int32_t pf_accept_draw(const float *p, int32_t n_vocab, float uniform);

#endif
