/*
 * Reads what synthetic acceptance is asked for, and gives the rates of pf_accept_synthetic.
 *
 *      0.8               every draft token is accepted with this probability where those before it are       c_i = 0.8
 *      0.9,0.5,0.2       share of proposals whose first i tokens are all accepted, for each position         c_i = S_i / S_(i-1)
 *                        (vLLM: synthetic_acceptance_rates; llama.cpp: --spec-synthetic-acceptance-rates)
 *      length:2.6        tokens a round, by one probability for all positions: p + p^2 + ... + p^k = 2.6 - 1
 *                        (llama.cpp: --spec-synthetic-acceptance-length)
 *      vllm-length:2.6   likewise with the least variance: 2 or 3 tokens a round, here in a ratio of 4 to 6
 *                        (vLLM: synthetic_acceptance_length)
 *
 * Pure arithmetic.
 */
#ifndef PF_BENCH_SYNTHETIC_RATES_H
#define PF_BENCH_SYNTHETIC_RATES_H

#include "base/status.h"
#include "include/pilotfish.h"

typedef enum {
    PF_SYNTHETIC_RATES_NONE,
    PF_SYNTHETIC_RATES_ONE,
    PF_SYNTHETIC_RATES_BY_POSITION,
    PF_SYNTHETIC_RATES_LENGTH,
    PF_SYNTHETIC_RATES_VLLM_LENGTH
} pf_synthetic_rates_kind;

typedef struct {
    pf_synthetic_rates_kind kind;
    double value;                         /* of ONE, 0 .. 1, and of the two lengths, at least 1 */
    double marginal[PF_MAX_DRAFT_TOKENS]; /* of BY_POSITION, [n]: 0 .. 1, none above the one before it */
    int32_t n;
} pf_synthetic_rates;

/* PF_INVALID: the text is none of the above; the sentence has it, and what was expected. */
PF_MUST_USE pf_status pf_synthetic_rates_parse(const char *text, pf_synthetic_rates *out, pf_error *error);

/* The rates of proposals of draft_len tokens (1 .. PF_MAX_DRAFT_TOKENS); behind them 0.
 * PF_INVALID: BY_POSITION of another number of positions, or a length above draft_len + 1. */
PF_MUST_USE pf_status pf_synthetic_rates_resolve(const pf_synthetic_rates *synthetic, int32_t draft_len,
                                                 float out[PF_MAX_DRAFT_TOKENS], pf_error *error);

#endif
