/*
 * Chooses the length of a proposal: after each drawn token, whether another is worth its time; and then, beside which
 * tokens the second choice is proposed.
 *
 *      reach    = P(all drawn tokens are accepted), the product of the acceptance rates by margin
 *      gain(j)  = reach * (a + a^2 + ... + a^(j - n))     expected extra tokens of length j over n, at mean acceptance rate a
 *      T(k)     = k * c + v(k)                            the time of a round: c a draft token, v from the end of
 *                                                         drafting to the verdict
 *      go on    if gain(j) > rate * (T(j) - T(n)) for some j from n + 1 to max
 *
 * rate is the recent number of committed tokens per unit of time: the opportunity cost of time.
 *
 * A second choice costs no pass of the draft, only a row of the verification. It commits one token more if the token beside it is
 * rejected and it is the target's choice:
 *
 *      gain(i)  = P(all before i are accepted) * P(i is rejected for its second choice)
 *      take it  if gain(i) > safety factor * rate * slope     the most valuable first; slope: time of a row, fitted to all v
 *
 * For each rejected token it is known whether its second choice was right, proposed or not. The safety factor, 3, covers costs
 * outside the slope: an accepted second choice moves keys and values, and rows cost more where compute becomes the limit.
 *
 * The margin of a token is the difference between its logit and the best other logit, in nats. A histogram over margins holds the
 * shares of tokens that were accepted, and that were rejected for the second choice, each bin regularised towards the mean. So
 * neither draft nor target need be calibrated, and uninformative margins fall back to the mean acceptance rate.
 *
 * c and v are averages over about a hundred rounds. v is a table by length, second choices included, because a verifier's time
 * grows in steps of a tile of rows; a rarely tried length is regularised towards the line fitted to all lengths. So the cost of k
 * more rows, the wire included, is measured without the verifier's help. a follows the text over the last tens of rounds,
 * regularised towards a longer average. A sequence starts with the measurements of the one before it, and keeps its own when it
 * is opened again.
 *
 * Pure arithmetic: no clock, and no state but the struct, so the same measurements give the same lengths. The choice is made
 * before a token is drawn, from the tokens already in the proposal, all of which are proposed (DESIGN, invariant 4). Second choices
 * are for tokens that are chosen, not drawn; drawn ones have siblings (draft/siblings.h).
 *
 * Source of T: Leviathan et al., arXiv:2211.17192, section 3.4; of a threshold on the product of confidences: Huang et al.,
 * SpecDec++, arXiv:2405.19715, section 3.2; of branches by expected gain: Li et al., EAGLE-2, arXiv:2406.16858, section
 * 4; of a rate as the opportunity cost of time: Charnov, Theor. Popul. Biol. 9(2), 1976.
 */
#ifndef PF_DRAFT_LENGTH_H
#define PF_DRAFT_LENGTH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

enum {
    PF_LENGTH_FIRST = 4,    /* proposed before anything has been measured */
    PF_LENGTH_MARGINS = 16, /* histogram bins of margins; the first is of tokens that are not the most probable */
};

/* A weighted count, and weighted nanoseconds: the weight of a round falls with every later one. */
typedef struct {
    double rounds, ns;
} pf_length_time;

/* Likewise of tokens: judged, of these accepted, and of these rejected where the second choice was right. */
typedef struct {
    double judged, kept, second;
} pf_length_share;

/* v(k) = mean_v + slope * (k - mean_k). */
typedef struct {
    double rounds, mean_k, mean_v, slope;
} pf_length_line;

/* One sequence's. Zero: nothing measured. */
typedef struct {
    int32_t n_trials;        /* rounds with lengths for exploration; after a few, lengths are chosen */
    double n_judged, n_kept; /* a is their ratio, recent, of this text; regularised by */
    pf_length_share before;  /* its longer average, over earlier sequences too */
    pf_length_share by_margin[PF_LENGTH_MARGINS]; /* all along */
    double n_drafted, drafted_ns;                 /* c is their ratio */
    double n_committed, committed_ns;             /* rate is theirs */
    pf_length_time away[PF_MAX_DRAFT_TOKENS + 1]; /* v, by length */
    pf_length_line line;                          /* through them */
} pf_length;

/* Starts a sequence with the measurements of `before`: its times count as some tens of rounds, and exploration is shorter, since a length
 * that was measured lately is not tried again. */
void pf_length_begin(pf_length *length, const pf_length *before);

/* The share that is kept of draft tokens that are judged: of this text lately, with the longer average behind it. Below 1. */
double pf_length_acceptance(const pf_length *length);

/* The share of those that are rejected for their second choice. */
double pf_length_second(const pf_length *length);

/* Likewise of tokens with such a margin, regularised by all. */
double pf_length_acceptance_at(const pf_length *length, float margin);

/* The outcome of a proposal. */
typedef struct {
    int32_t n_drawn;     /* tokens of its chain, 1 .. PF_MAX_DRAFT_TOKENS */
    int32_t n_branches;  /* second choices that it had besides */
    int32_t n_kept;      /* of the chain */
    bool second_right;   /* n_kept < n_drawn: the correction is the rejected token's second choice */
    int32_t n_committed; /* tokens in all */
    uint64_t draft_ns;   /* drafting */
    uint64_t away_ns;    /* from the end of drafting to the verdict */
} pf_length_round;

/* Records a round; margins [n_drawn]. */
void pf_length_observe(pf_length *length, const float *margins, const pf_length_round *round);

/* Records a proposal that came too late to be judged, where the first token, of this margin, is the target's choice. (If it is not,
 * the proposal counts as judged: the two cases cannot be distinguished.) */
void pf_length_observe_late(pf_length *length, float margin);

/* Whether to draw another token after n_drawn with these margins, of at most max_draft (1 .. PF_MAX_DRAFT_TOKENS).
 * The first is always drawn. */
bool pf_length_goes_on(const pf_length *length, const float *margins, int32_t n_drawn, int32_t max_draft);

/* What a row of the verification has to gain to be worth its time, in tokens, with the safety factor; below 0 while too little is measured. */
double pf_length_row_price(const pf_length *length);

/* Of n_drawn tokens (1 .. max_draft), which second choices are worth a row of the verification: the indices of their tokens in
 * at [max_draft - n_drawn], the most valuable first. Returns how many. */
int32_t pf_length_branches(const pf_length *length, const float *margins, int32_t n_drawn, int32_t max_draft,
                           int32_t *at);

#endif
