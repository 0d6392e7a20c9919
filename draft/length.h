/*
 * How many tokens to propose: the length that commits most tokens a second, by what has been measured so far.
 *
 *      E(k) = 1 + a + a^2 + ... + a^k      tokens that a round of k commits, at acceptance a
 *      T(k) = k * c + v(k)                 its time: c a draft token, v from the proposal's leaving to the verdict
 *      next = argmax over 1 <= k <= max of E(k) / T(k)
 *
 * c and v are remembered for about a hundred rounds. v is a table by length, since a verifier's time goes in steps, a tile
 * of rows more or less; a length that was seldom tried leans on the line through all of them. So what k rows more cost the
 * verifier, its step and the wire included, is known without anybody telling. a follows the text, over the last tens of
 * rounds, and leans on what it was for longer. A sequence begins with what the one before it has measured.
 *
 * Pure arithmetic: no clock, no state but the struct, so a sequence that is replayed with the same measurements chooses
 * the same lengths. The choice looks at past rounds alone, never at a token of the coming one (DESIGN, invariant 4).
 *
 * Source of E and of the criterion: Leviathan et al., arXiv:2211.17192, section 3.4.
 */
#ifndef PF_DRAFT_LENGTH_H
#define PF_DRAFT_LENGTH_H

#include <stdint.h>

#include "proto/messages.h"

enum { PF_LENGTH_FIRST = 4 }; /* proposed until something has been measured */

/* A weighted count, and weighted nanoseconds: the weight of a round falls with every later one. */
typedef struct {
    double rounds, ns;
} pf_length_time;

/* One sequence's. Zero it to begin with nothing known. */
typedef struct {
    int32_t n_trials;                             /* rounds of PF_LENGTH_FIRST so far; a few, then lengths are chosen */
    double n_kept, n_refused;                     /* draft tokens that were judged, of late */
    double n_kept_before, n_refused_before;       /* and for longer, in the sequences before as well */
    double n_drafted, drafted_ns;                 /* c is their ratio */
    pf_length_time away[PF_MAX_DRAFT_TOKENS + 1]; /* v, by length */
} pf_length;

/* Begin a sequence with what `before` has measured: its times count as some tens of rounds, and fewer are tried. */
void pf_length_begin(pf_length *length, const pf_length *before);

/* A round is over: of n_draft tokens (1 .. PF_MAX_DRAFT_TOKENS), drafted in draft_ns, n_accepted were kept; the verdict
 * came away_ns after the proposal left. */
void pf_length_observe(pf_length *length, int32_t n_draft, int32_t n_accepted, uint64_t draft_ns, uint64_t away_ns);

/* The length of the next proposal, 1 .. max_draft (at most PF_MAX_DRAFT_TOKENS). */
int32_t pf_length_next(const pf_length *length, int32_t max_draft);

#endif
