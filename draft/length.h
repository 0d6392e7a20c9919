/*
 * How many tokens to propose: the length that commits most tokens a second, by what has been measured so far.
 *
 *      E(k) = 1 + a + a^2 + ... + a^k      tokens that a round of k commits, at acceptance a
 *      T(k) = k * c + v(k)                 its time: c a draft token, v from the proposal's leaving to the verdict
 *      next = argmax over 1 <= k <= max of E(k) / T(k)
 *
 * a, c and v are smoothed over the last tens of rounds. v is a line, fitted to the lengths that were tried: what k rows
 * more cost the verifier, its step and the wire included, without anybody telling. Pure arithmetic: no clock, no state
 * but the struct, so a sequence that is replayed with the same measurements chooses the same lengths. The choice looks
 * at past rounds alone, never at a token of the coming one (DESIGN, invariant 4).
 *
 * Source of E and of the criterion: Leviathan et al., arXiv:2211.17192, section 3.4.
 */
#ifndef PF_DRAFT_LENGTH_H
#define PF_DRAFT_LENGTH_H

#include <stdint.h>

enum { PF_LENGTH_FIRST = 4 }; /* proposed until something has been measured */

/* One sequence's. Zero it to begin. Sums are weighted: the weight of a round halves in about fourteen. */
typedef struct {
    double n_kept, n_refused;                    /* draft tokens that were judged */
    double token_ns;                             /* c; 0: not measured */
    double weight, sum_k, sum_kk, sum_v, sum_kv; /* of the line v */
} pf_length;

/* A round is over: of n_draft >= 1 tokens, drafted in draft_ns, n_accepted were kept; the verdict came away_ns after
 * the proposal left. */
void pf_length_observe(pf_length *length, int32_t n_draft, int32_t n_accepted, uint64_t draft_ns, uint64_t away_ns);

/* The length of the next proposal, 1 .. max_draft. */
int32_t pf_length_next(const pf_length *length, int32_t max_draft);

#endif
