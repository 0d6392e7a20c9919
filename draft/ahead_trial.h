/*
 * Finds whether drafting ahead pays: rounds with it and rounds without it, in turns. Internal to draft/.
 *
 *      trial    with | without | with | without    four blocks of PF_AHEAD_BLOCK rounds; two where it clearly pays
 *      rest     what was better, for tens of blocks; twice as many after each trial that finds the same, up to a limit
 *
 * A round is the time from a verdict to the next one of the same sequence. Drafting ahead is kept where it gives at least 1.05 times the tokens a second. These are the
 * tokens that its rounds are expected to commit, by their lengths and acceptance rates: how many are accepted by chance would take
 * hundreds of rounds to average out, while times differ little from round to round. The slowest and the fastest rounds of either way are
 * left out: a stall says nothing about it.
 *
 * Pure arithmetic; the caller passes the times. Threads: one at a time.
 */
#ifndef PF_DRAFT_AHEAD_TRIAL_H
#define PF_DRAFT_AHEAD_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PF_AHEAD_BLOCK = 6,    /* rounds of a sequence */
    PF_AHEAD_SAMPLES = 48, /* rounds of a trial that are kept of either way: the latest */
};

typedef struct {
    double ns[PF_AHEAD_SAMPLES]; /* a ring: of a round, for each token */
    int32_t n;                   /* rounds */
} pf_ahead_arm;

/* Zero: a trial begins, with drafting ahead. */
typedef struct {
    pf_ahead_arm arms[2]; /* of this trial: without, with */
    bool is_off;          /* nothing is drafted ahead now */
    bool rests;           /* it has been decided */
    bool found_off;       /* by the latest trial */
    int32_t n_counted;    /* rounds of this block */
    int32_t n_phase;      /* blocks of this trial, or of this rest */
    int32_t rest;         /* blocks of the latest rest */
    uint32_t block;       /* its number: it changes with every block */
} pf_ahead_trial;

/* A round of this block took ns, and was expected to commit so many tokens; is_last: its sequence has had PF_AHEAD_BLOCK in this block. A
 * sequence's first round in a block is not to be counted: what it found was made by the block before. */
void pf_ahead_trial_observe(pf_ahead_trial *trial, double tokens, uint64_t ns, bool is_last);

#endif
