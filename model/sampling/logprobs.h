/*
 * Log-probabilities of a row of logits: of one token, and of the likeliest ones.
 *
 * Sums are in double precision. A NaN counts as minus infinity; with plus infinity among the logits the tokens that have it share all of the
 * probability.
 */
#ifndef PF_MODEL_LOGPROBS_H
#define PF_MODEL_LOGPROBS_H

#include <stdint.h>

#include "base/status.h"

/* Of `token`, and of the n_top likeliest of logits [n_vocab], at most PF_MAX_LOGPROBS. Tokens without probability are left out of the
 * latter. */
pf_token_logprobs pf_logprobs_of(const float *logits, int32_t n_vocab, int32_t token, int32_t n_top);

#endif
