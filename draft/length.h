/*
 * How many tokens to propose: after each one that is drawn, whether another is worth its time; and then, beside which of
 * them the second choice is proposed too.
 *
 *      reach    = P(all that are drawn will be kept), the product of what each one's margin has meant so far
 *      gain(j)  = reach * (a + a^2 + ... + a^(j - n))     tokens that j instead of n commit, at mean acceptance a
 *      T(k)     = k * c + v(k)                            a round's time: c a draft token, v from the proposal's leaving
 *                                                         to the verdict
 *      go on    if gain(j) > rate * (T(j) - T(n)) for some j from n + 1 to max
 *
 * rate, the tokens that a unit of time has committed of late, is what the time could buy elsewhere: in the next round.
 *
 * A second choice costs no pass of the draft, a row of the verification alone. It commits one token more where the token that it
 * stands beside is refused and it is what the target chose:
 *
 *      gain(i)  = P(all before i are kept) * P(i is refused for its second choice)
 *      take it  if gain(i) > caution * rate * slope     the most valuable first; slope is a row's, of the line through all v
 *
 * What it would have been is known of every refused token, whether it was proposed or not. caution, 3, is for what the slope
 * does not know: where a second choice is kept, its keys and values move to where the refused token's were; and rows cost more
 * where multiplies begin to be the limit.
 *
 * A token's margin is how far its logit lies above the best other's, in nats. What a margin means is learnt: the shares of
 * tokens that were kept, and that were refused for the second choice, by stretches of it, each leaning on the mean. So neither
 * draft nor target need be calibrated, and where margins tell nothing, all there is left is the mean acceptance.
 *
 * c and v are remembered for about a hundred rounds. v is a table by length, second choices included, since a verifier's time
 * goes in steps, a tile of rows more or less; a length that was seldom tried leans on the line through all of them. So what
 * k rows more cost the verifier, its step and the wire included, is known without anybody telling. a follows the text, over
 * the last tens of rounds, and leans on what it was for longer. A sequence begins with what the one before it has measured,
 * and keeps what it has where it is opened again.
 *
 * Pure arithmetic: no clock, no state but the struct, so a sequence that is replayed with the same measurements chooses
 * the same lengths. The choice is made before a token is drawn, by those already in the proposal, all of which are
 * proposed: none is looked at and then held back (DESIGN, invariant 4). Runners-up are for greedy proposals alone.
 *
 * Source of T: Leviathan et al., arXiv:2211.17192, section 3.4; of a threshold on the product of confidences: Huang et al.,
 * SpecDec++, arXiv:2405.19715, section 3.2; of branches by what they promise: Li et al., EAGLE-2, arXiv:2406.16858, section
 * 4; of a rate as the price of time: Charnov, Theor. Popul. Biol. 9(2), 1976.
 */
#ifndef PF_DRAFT_LENGTH_H
#define PF_DRAFT_LENGTH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

enum {
    PF_LENGTH_FIRST = 4,    /* proposed before anything has been measured */
    PF_LENGTH_MARGINS = 16, /* stretches of margins; the first is of tokens that are not the likeliest */
};

/* A weighted count, and weighted nanoseconds: the weight of a round falls with every later one. */
typedef struct {
    double rounds, ns;
} pf_length_time;

/* Likewise of tokens: those that were judged, of them those that were kept, and those whose second choice would have been. */
typedef struct {
    double judged, kept, second;
} pf_length_share;

/* v(k) = mean_v + slope * (k - mean_k). */
typedef struct {
    double rounds, mean_k, mean_v, slope;
} pf_length_line;

/* One sequence's. Zero it to begin with nothing known. */
typedef struct {
    int32_t n_trials;                             /* rounds of lengths to be tried; after a few they are chosen */
    double n_judged, n_kept;                      /* a is their ratio, of this text and of late; it leans on */
    pf_length_share before;                       /* what it was for longer, in the sequences before as well */
    pf_length_share by_margin[PF_LENGTH_MARGINS]; /* all along */
    double n_drafted, drafted_ns;                 /* c is their ratio */
    double n_committed, committed_ns;             /* rate is theirs */
    pf_length_time away[PF_MAX_DRAFT_TOKENS + 1]; /* v, by length */
    pf_length_line line;                          /* through them */
} pf_length;

/* Begin a sequence with what `before` has measured: its times count as some tens of rounds, and fewer are tried. */
void pf_length_begin(pf_length *length, const pf_length *before);

/* What became of a proposal. */
typedef struct {
    int32_t n_drawn;     /* tokens of its chain, 1 .. PF_MAX_DRAFT_TOKENS */
    int32_t n_branches;  /* second choices that it had besides */
    int32_t n_kept;      /* of the chain */
    bool second_right;   /* n_kept < n_drawn: what stands in the refused one's place is its second choice */
    int32_t n_committed; /* tokens in all */
    uint64_t draft_ns;   /* drafting */
    uint64_t away_ns;    /* from its leaving to the verdict */
} pf_length_round;

/* A round is over; margins [n_drawn]. */
void pf_length_observe(pf_length *length, const float *margins, const pf_length_round *round);

/* A proposal was not looked at, it came too late, and its first token, of this margin, is what the target chose. (One that
 * it did not choose counts as judged: nobody can tell, and of acceptance it says as much.) */
void pf_length_observe_late(pf_length *length, float margin);

/* Whether to draw another token behind n_drawn of these margins, of at most max_draft (1 .. PF_MAX_DRAFT_TOKENS).
 * The first is always drawn. */
bool pf_length_goes_on(const pf_length *length, const float *margins, int32_t n_drawn, int32_t max_draft);

/* Of n_drawn tokens (1 .. max_draft), those whose second choices are worth a row of the verification: their indices in
 * at [max_draft - n_drawn], the most valuable first. Returns how many. */
int32_t pf_length_branches(const pf_length *length, const float *margins, int32_t n_drawn, int32_t max_draft,
                           int32_t *at);

#endif
