/*
 * Weighs a lookup against a proposal of the model, round by round, by what rounds of either have given.
 *
 * A lookup takes no time and a model's pass does. Per round both are weighed by their gain:
 *
 *      gain = expected tokens - rate * expected time       rate: committed tokens a second, of all rounds lately
 *
 * The tokens of a lookup are those that its odds give (draft/lookup_odds.h), those of the model its mean; the time of a lookup's round
 * is that of its rows, on a line through what was measured, that of the model's round its mean. So where verifying takes long and the
 * draft is fast a lookup must be sure, and where the draft is slow a guess is worth its rows. Each is tried again now and then.
 *
 * The decision depends on committed tokens and on times, never on a token that was drawn (invariant 4). It depends on times: with
 * `rejection` a seed does not repeat its text.
 */
#ifndef PF_DRAFT_CASCADE_ROUNDS_H
#define PF_DRAFT_CASCADE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "draft/goodput.h"

typedef enum { PF_CASCADE_NONE, PF_CASCADE_LOOKUP, PF_CASCADE_MODEL } pf_cascade_proposer;

/* The round of a sequence whose verdict comes next. Zero: the sequence has just been opened. */
typedef struct {
    pf_cascade_proposer by;
    int32_t n_rows;      /* that it verifies, of a lookup */
    uint64_t verdict_ns; /* when the last verdict came; 0: none has */
} pf_cascade_round;

/* Decayed sums over rounds. */
typedef struct {
    double rounds, tokens, ns;
    int32_t n_measured; /* of those that must be measured first */
    int32_t n_without;  /* rounds since the last one */
} pf_cascade_sums;

/* Of all sequences. Zero at first. */
typedef struct {
    pf_cascade_sums looked_up, drafted, all;
    pf_goodput cost;             /* of a lookup's round by its rows */
    int64_t n_lookups, n_models; /* rounds of either */
} pf_cascade_rounds;

/* A verdict of n_tokens has come: the round ends, which began with the verdict before. */
void pf_cascade_end_round(pf_cascade_rounds *rounds, pf_cascade_round *round, int32_t n_tokens, uint64_t now_ns);

/* Whether the next round is to be a lookup of n_tokens, of which so many are expected to be accepted; else it is the model's. */
bool pf_cascade_begin_round(pf_cascade_rounds *rounds, pf_cascade_round *round, int32_t n_tokens, double expected);

#endif
