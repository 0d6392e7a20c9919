/*
 * Estimates how likely a looked-up token is accepted, from its match and its frequency, by what verdicts have shown.
 *
 *      length       tokens of the suffix that was found, with the proposed tokens before this one
 *      frequency    of the continuations of that suffix, the share that this token has
 *
 * Both put a token in a cell of a table. Before verdicts its odds are frequency * length / (length + 1): a suffix of one token that
 * is always followed by this one is right half of the time, one of sixteen tokens nearly always. Verdicts move them towards what was
 * accepted in the cell, first over all texts, then in this one. The product along a path is the chance that all of it is accepted.
 *
 * A verdict judges every proposal, also one that was not sent: the tokens that the target has committed show what of it was right.
 *
 * Pure arithmetic. Threads: one at a time.
 *
 * Source: Oliaro et al., SuffixDecoding, arXiv:2411.04975, section 4.2 (products of frequencies as scores); the estimate is a
 * mean with a prior of fixed weight.
 */
#ifndef PF_DRAFT_LOOKUP_ODDS_H
#define PF_DRAFT_LOOKUP_ODDS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PF_LOOKUP_LENGTHS = 8, /* up to 1, 2, 3, 5, 8, 15, 31 tokens, and more */
    PF_LOOKUP_FREQUENCIES = 5,
};

/* Tokens that were judged, and of these accepted; halved now and then, so that what is recent counts more. */
typedef struct {
    float judged, kept;
} pf_lookup_share;

/* Zero: nothing has been judged. */
typedef struct {
    pf_lookup_share cells[PF_LOOKUP_LENGTHS][PF_LOOKUP_FREQUENCIES];
} pf_lookup_odds;

/* Where a token stands in the table. */
typedef struct {
    int16_t length, frequency;
} pf_lookup_cell;

/* Of a token that followed `count` of `n_ended` times (1 or more each) on a suffix of `length` tokens, 1 or more. */
pf_lookup_cell pf_lookup_cell_of(int32_t length, int32_t count, int32_t n_ended);

/* The chance that a token of this cell is accepted, given that all before it are: above 0, below 1. own: of this text; all: of all
 * texts; the other arguments are those of the cell. */
double pf_lookup_chance(const pf_lookup_odds *own, const pf_lookup_odds *all, int32_t length, int32_t count,
                        int32_t n_ended);

void pf_lookup_observe(pf_lookup_odds *odds, pf_lookup_cell cell, bool is_kept);

#endif
