/*
 * Predicts the speed-up of a deployment from measured acceptance: what another target, draft and wire would give.
 *
 *      S_i        share of proposals that reach position i whose tokens 1 .. i were all accepted (marginal rate)
 *      C_i        S_i / S_(i-1)                                                                   (conditional rate)
 *      L(k)       1 + S_1 + ... + S_k               tokens that a round of k draft tokens commits
 *      speed-up   L(k) * v / (v + k * d + r)        v: a target step; d: a draft pass; r: a round trip
 *
 * Positions past the measured ones, or reached by fewer than PF_WHAT_IF_LEAST proposals, have the conditional rate of the last one before
 * them. The rates are those of the measured text and drafter; with `auto` a position is reached where the drafter is sure, so rates of
 * a fixed length of proposals predict better.
 *
 * Pure arithmetic. Source: Leviathan et al., arXiv:2211.17192, section 3.1 and theorem 3.8, with a rate for each position.
 */
#ifndef PF_BENCH_WHAT_IF_H
#define PF_BENCH_WHAT_IF_H

#include "include/pilotfish.h"

enum { PF_WHAT_IF_LEAST = 20, PF_WHAT_IF_LONGEST = 16 };

typedef struct {
    double verify_ms, draft_ms, round_trip_us;
} pf_what_if_costs;

typedef struct {
    int32_t draft_len; /* of the highest speed-up, 0 to PF_WHAT_IF_LONGEST; 0: none is better than plain decoding */
    double length;     /* L of it */
    double speedup;
} pf_what_if;

/* S_i, NaN where it was not measured; C_i; L(k). i from 0, k from 0. */
double pf_what_if_marginal(const pf_speculation *speculation, int32_t i);
double pf_what_if_conditional(const pf_speculation *speculation, int32_t i);
double pf_what_if_length(const pf_speculation *speculation, int32_t draft_len);

/* The speed-up of a length, and the best length. costs: verify_ms above 0. */
double pf_what_if_speedup(const pf_speculation *speculation, const pf_what_if_costs *costs, int32_t draft_len);
pf_what_if pf_what_if_best(const pf_speculation *speculation, const pf_what_if_costs *costs);

/* "20:3:100", ms, ms and us. False: it is none. */
bool pf_what_if_parse(const char *text, pf_what_if_costs *out);

#endif
