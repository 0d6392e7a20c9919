/*
 * Ranks the outcomes of a verification: how many tokens of a proposal are accepted, and which token follows them.
 *
 *      proposal        d0    d1    d2    (bonus)
 *      candidates      x00   x10   x20   x30        the draft's most probable tokens at each position, without the drafted one
 *                      x01   x11   x21   x31
 *
 *      outcome (i, j)  d0 .. d(i-1) are accepted, then the target's token is candidate j of position i
 *      P(i, j)       = a(0) * ... * a(i-1) * (1 - a(i)) * s(i, j)         i < n, the correction
 *      P(n, j)       = a(0) * ... * a(n-1) * s(n, j)                      the bonus
 *
 * a is the acceptance of each token, learnt by its margin (draft/length.h). s(i, j) is the share of corrections (or bonus tokens)
 * that are candidate j: the mean of what was learnt by rank and of the draft's own weights of the candidates.
 *
 * The outcomes with the greatest P are drafted for, so the fan-out of a position is what equalises the marginal gain over all
 * positions. With one acceptance a for all and shares that fall as a power law, s(j) ~ j^-(1+r), that is the capped geometric
 * fan-out F(i) = F(0) * a^(i/(1+r)), of at most PF_OUTCOME_CANDIDATES. Source: SSD, arXiv:2603.03251.
 *
 * Pure: no clock, no state but the structs. Threads: one at a time.
 */
#ifndef PF_DRAFT_OUTCOMES_H
#define PF_DRAFT_OUTCOMES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

enum {
    PF_OUTCOME_CANDIDATES = 4, /* of a position, at most */
    PF_OUTCOMES_MAX = 64,      /* of a proposal, at most */
};

/* What the draft's logits say of a position. */
typedef struct {
    float margin; /* of the drafted token (of a bonus, of the first candidate) above the best other, in nats */
    int32_t n;    /* candidates */
    int32_t ids[PF_OUTCOME_CANDIDATES];
    float weights[PF_OUTCOME_CANDIDATES]; /* [n] descending, summing to 1 */
} pf_outcome_row;

/* Shares by rank, learnt with a weight that falls; [PF_OUTCOME_CANDIDATES]: none of the candidates. */
typedef struct {
    double correction[PF_OUTCOME_CANDIDATES + 1];
    double bonus[PF_OUTCOME_CANDIDATES + 1];
} pf_outcome_shares;

typedef struct {
    int32_t n_accepted;
    int32_t rank;       /* of the next token among the candidates of position n_accepted */
    double probability; /* estimated */
} pf_outcome;

/* From logits or perturbed logits, in nats, of n >= 1 distinct tokens: the row of a position where `drafted` was drafted; -1: of a
 * bonus. scores of tokens that are absent are lower. ids and scores are reordered. */
void pf_outcome_row_fill(pf_outcome_row *row, int32_t drafted, float drafted_score, int32_t *ids, float *scores,
                         int32_t n);

/* The most probable outcomes of a proposal of n tokens, the most probable first: into out [most], returns how many.
 * rows [n], acceptance [n]; of the bonus, whose row is not known yet, n_bonus candidates are ranked by their shares alone. */
int32_t pf_outcomes_rank(const pf_outcome_shares *shares, const pf_outcome_row *rows, const double *acceptance,
                         int32_t n, int32_t n_bonus, int32_t most, pf_outcome *out);

/* The rank of a token in a row; PF_OUTCOME_CANDIDATES: it is none of its candidates. */
int32_t pf_outcome_row_find(const pf_outcome_row *row, int32_t token);

/* Learns from an outcome: the rank of its next token. */
void pf_outcome_shares_observe(pf_outcome_shares *shares, bool is_bonus, int32_t rank);

#endif
