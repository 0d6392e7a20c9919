/*
 * Draws siblings of drafted tokens, and chooses beside which tokens they pay. Internal to draft/.
 *
 *      chain      x0 ~ q0    x1 ~ q1    x2 ~ q2          q: the draft's, filtered and truncated
 *      siblings   y0 ~ q0 without x0                     declared so, renormalised
 *                 z0 ~ q0 without x0 and y0
 *
 * A sibling is a leaf and costs no pass of the draft, only a row of the verification. It commits a token more if those before it are
 * accepted, the token beside it is not, and it is:
 *
 *      gain     = P(all before i are accepted) * (1 - a(i)) * s(0)         of the first sibling of token i
 *      take it  if gain > price, the most valuable first; of the next, (1 - s(0)) * s(1) in the place of s(0)
 *
 * s(r), the share of siblings of rank r that are accepted once they are judged, is measured of siblings that were proposed: other than of a
 * greedy text, a rejected token does not tell whether a sibling would have been accepted. Where none pays one is proposed now and then.
 *
 * Whether a token has siblings may depend on the tokens of the chain, never on a sibling that was drawn: then each sibling is a draw from
 * what is declared with it, given all that is judged before it, and every method that tries siblings in order is exact.
 *
 * Pure. Threads: one at a time. Source of the draw: Jeon et al., arXiv:2402.14160, section 4.1.
 */
#ifndef PF_DRAFT_SIBLINGS_H
#define PF_DRAFT_SIBLINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

/* By rank, weights that fall: siblings that were judged, and of these accepted. Zero: nothing measured. */
typedef struct {
    double judged[PF_MAX_SIBLINGS], kept[PF_MAX_SIBLINGS];
    int32_t n_without; /* proposals without a sibling, since the last one with */
} pf_sibling_shares;

/* Tokens of the chain of a proposal that has room for `room` tokens, with so many siblings beside each (pf_open.siblings). */
static inline int32_t pf_siblings_chain(int32_t siblings, int32_t room)
{
    return siblings > 0 && siblings <= PF_MAX_SIBLINGS ? (room + siblings) / (1 + siblings) : room;
}

/* s(rank). */
double pf_sibling_share(const pf_sibling_shares *shares, int32_t rank);

/* Of n judged siblings of a token (1 .. PF_MAX_SIBLINGS) the last was accepted, or none. */
void pf_siblings_observe(pf_sibling_shares *shares, int32_t n, bool is_kept);

/* Where siblings pay beside a chain of n tokens with these acceptance rates: `at` [most] has a token's index for each of its siblings.
 * price: in tokens, of a row; below 0: none pays. Returns how many. */
int32_t pf_siblings_choose(pf_sibling_shares *shares, const double *acceptance, int32_t n, double price, int32_t most,
                           int32_t *at);

/* Draws from `of` without the tokens `before` [n_before], renormalised: exactly that is declared, in ids and probabilities [of->n]. False:
 * nothing is left. */
bool pf_sibling_draw(const pf_declared *of, const int32_t *before, int32_t n_before, float uniform, int32_t *ids,
                     float *probabilities, pf_declared *declared, int32_t *token);

#endif
