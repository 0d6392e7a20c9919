/*
 * Measures acceptance rate and speed-up of a drafter and a target over many prompts.
 *
 *      for each prompt:   plain | speculative | (next prompt) speculative | plain | ...
 *
 * Both kinds of decoding run the same request on the same verifier within seconds of each other, in alternating
 * order, so the speed-up is a ratio of neighbouring measurements. A setting may be measured several times (pf_acceptance_run_add):
 * counts and times are then sums over the repeats, rates and speed-ups medians of them. A prompt of several turns is a conversation: each turn
 * follows the text before it and the answer of plain decoding.
 *
 * The predicted speed-up of a run:
 *
 *      predicted_speedup = s * n / (v + d + r)
 *          s   a plain step: decode time a token, without the drafter
 *          n   tokens committed by all passes after the prefill
 *          v   time of those passes, measured by the verifier
 *          d   time of all drafting, measured by the drafter
 *          r   round trips to the far peer, each at the median; 0 when both peers are in this process
 *
 * Where each pass verifies a proposal, n per pass is the mean accepted length, less what the end of a request cuts off.
 * A speed-up well below the prediction means time lost outside of both models.
 */
#ifndef PF_BENCH_ACCEPTANCE_H
#define PF_BENCH_ACCEPTANCE_H

#include "bench/prompts.h"
#include "bench/statistics.h"
#include "include/pilotfish.h"

/* The settings shared by all points of a grid. Every pointer is borrowed. */
typedef struct {
    pf_session *speculative, *plain; /* on one verifier */
    const pf_tokenizer *tokenizer;
    const pf_prompts *prompts;
    pf_sampling sampling; /* the temperature comes from the setting; prompt i has seed + i */
    int32_t max_new_tokens;
    int32_t max_context; /* of the sessions: a longer prompt is skipped, and counted */
    const int32_t *stop_tokens;
    int32_t n_stop_tokens;
    const volatile bool *cancel;                             /* or NULL */
    void (*progress)(void *user, size_t done, size_t total); /* prompts; or NULL */
    void *progress_user;
} pf_acceptance_bench;

/* One point of a grid. */
typedef struct {
    pf_method method;   /* 0: by temperature */
    pf_typical typical; /* of the method typical */
    float temperature;
    int32_t draft_len;   /* as in pf_request */
    const char *drafter; /* likewise; borrowed */
    int32_t siblings;    /* likewise */
} pf_acceptance_setting;

enum { PF_ACCEPTANCE_REPEATS = 32 };

typedef struct {
    const char *category; /* borrowed from the prompts; "" for the total */
    int64_t n_requests;
    int64_t n_identical; /* requests with two equal token sequences */
    uint64_t checksum;   /* FNV-1a over all tokens of the speculative texts, in order, of one repeat */
    int64_t plain_tokens, speculative_tokens; /* decoded: without each request's first, which the prefill gives */
    uint64_t plain_ns, speculative_ns;        /* decoding */
    pf_speculation speculation;
    int32_t n_repeats; /* that were added, up to PF_ACCEPTANCE_REPEATS; 0: these are the figures of one */
    double plain_rates[PF_ACCEPTANCE_REPEATS], speedups[PF_ACCEPTANCE_REPEATS];
    double speculative_rates[PF_ACCEPTANCE_REPEATS]; /* [n_repeats] each */
} pf_acceptance_figures;

typedef struct {
    pf_acceptance_figures total;
    int64_t n_skipped;                 /* requests longer than the context */
    pf_acceptance_figures *categories; /* [n_categories] in the order that the prompts name them; where one does, those
                                        * that name none are a category, "" */
    size_t n_categories;
} pf_acceptance_run;

/* *out is filled in also when it fails or is cancelled, with what was measured before; the caller ends it with
 * pf_acceptance_run_clear.
 * PF_CANCELLED, PF_NOMEM, or as pf_generate. */
PF_MUST_USE pf_status pf_bench_acceptance(const pf_acceptance_bench *bench, const pf_acceptance_setting *setting,
                                          pf_acceptance_run *out, pf_error *error);
void pf_acceptance_run_clear(pf_acceptance_run *run); /* zeroed is fine */

/* Adds a repeat of the same setting over the same prompts to a sum, at first zeroed; both are cleared by the caller. At most
 * PF_ACCEPTANCE_REPEATS of them. PF_NOMEM. */
PF_MUST_USE pf_status pf_acceptance_run_add(pf_acceptance_run *sum, const pf_acceptance_run *repeat);

/* Tokens a second, and their ratio where anything was drafted, of repeats the median; the formula above, of the sums. NaN where
 * nothing was measured. */
double pf_acceptance_plain_rate(const pf_acceptance_figures *figures);
double pf_acceptance_speculative_rate(const pf_acceptance_figures *figures);
double pf_acceptance_speedup(const pf_acceptance_figures *figures);
pf_spread pf_acceptance_plain_spread(const pf_acceptance_figures *figures);
pf_spread pf_acceptance_speculative_spread(const pf_acceptance_figures *figures);
pf_spread pf_acceptance_speedup_spread(const pf_acceptance_figures *figures);
double pf_acceptance_predicted_speedup(const pf_acceptance_figures *figures);

/* Adds the figures of one request to a total. */
void pf_speculation_add(pf_speculation *total, const pf_speculation *one);

#endif
