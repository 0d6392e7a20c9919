/*
 * Chooses in how many passes a draft with a mask token drafts a proposal, and how many tokens it has.
 *
 *      one        the committed tokens and k - 1 masks: k tokens, each without those before it      (PARD, arXiv:2504.18583)
 *      two        a second pass over these tokens: each predicted again, behind the first pass's tokens
 *      each       a pass a token, as of any other draft
 *
 *      rate(how)  = tokens(how) / time(how)                                          of a round that was drafted so, means
 *      how        = argmax of rate(how) * (1 + BONUS / sqrt(rounds(how)))            an upper confidence bound
 *      k          = argmax of (1 + a(0) + a(0) a(1) + ...) / (D(k) + V(k))           of one and two passes
 *
 * The tokens of a round vary much, and its time little. So tokens(how) is a mean over about a thousand rounds, in which easy and
 * difficult texts even out, regularised towards the mean of all ways; time(how) is one over about a hundred. rounds() falls with every
 * round that is drafted otherwise, so each way is tried again now and then. a(i) is the share of tokens at
 * position i that are accepted where those before it are. D and V are the times of draft/goodput.h.
 *
 * Pure arithmetic. Threads: one at a time.
 * Source of the bound: Auer, Cesa-Bianchi and Fischer, "Finite-time Analysis of the Multiarmed Bandit Problem", 2002, section 2.
 */
#ifndef PF_DRAFT_PASSES_H
#define PF_DRAFT_PASSES_H

#include "draft/goodput.h"
#include "proto/messages.h"

typedef enum { PF_PASSES_AUTO, PF_PASSES_ONE, PF_PASSES_TWO, PF_PASSES_EACH, PF_N_PASSES } pf_passes;

enum { PF_PASSES_FIRST = 6 /* tokens of a proposal before anything has been measured */ };

/* Weighted sums over rounds that were drafted one way. */
typedef struct {
    double rounds, committed;
    double timed, ns;                                              /* of fewer rounds */
    double judged[PF_MAX_DRAFT_TOKENS], kept[PF_MAX_DRAFT_TOKENS]; /* by position */
} pf_passes_record;

/* Zero: nothing measured. */
typedef struct {
    pf_passes_record of[PF_N_PASSES];
} pf_passes_records;

typedef struct {
    pf_passes how;       /* not AUTO */
    int32_t n_judged;    /* positions that the verdict reached, 0 .. PF_MAX_DRAFT_TOKENS */
    int32_t n_kept;      /* of the chain, n_judged or one less */
    int32_t n_committed; /* tokens in all */
    uint64_t ns;         /* from the begin of drafting to the verdict */
} pf_passes_round;

void pf_passes_observe(pf_passes_records *records, const pf_passes_round *round);

pf_passes pf_passes_choose(const pf_passes_records *records);

/* a(position) of proposals that were drafted so. */
double pf_passes_acceptance(const pf_passes_records *records, pf_passes how, int32_t position);

/* How many tokens each of n sequences is to have in a proposal drafted in ONE or TWO passes, 1 .. most, where a pass begins with
 * n_fed rows of committed tokens in all. */
int32_t pf_passes_length(const pf_passes_records *records, pf_passes how, const pf_goodput *goodput, int32_t n,
                         int32_t n_fed, int32_t most);

#endif
