/*
 * Applies the logit rules of a request to a row of logits: biases, min_tokens, and penalties by the tokens before the row.
 *
 * The order is that of vLLM's sampler: bias, min_tokens, repetition, frequency, presence; then the tokens that are not allowed. A row depends on its logits and on the tokens
 * before it alone, so plain and speculative decoding get the same bits, in the middle of a proposal too.
 *
 * The cost is a few operations a token of the text and none a token of the vocabulary, but for allowed tokens: counts are made in an
 * array of zeros, and taken back.
 */
#ifndef PF_MODEL_RULES_H
#define PF_MODEL_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

/* One sequence's, copied, but for what `allow` points to. Zero: none. */
typedef struct {
    bool is_active;
    pf_logit_rules rules; /* its arrays are those below */
    int32_t *ids;         /* [PF_MAX_LOGIT_BIASES] */
    float *biases;        /* [PF_MAX_LOGIT_BIASES] */
    int32_t *stop;        /* [PF_MAX_STOP_TOKENS] that min_tokens is about */
    int32_t n_stop;
} pf_rules;

/* Room for one, from the arena (or its measure). */
pf_rules pf_rules_lay_out(pf_arena *arena);

/* Take the rules of a request, with its stop tokens [n_stop]. What is out of range is cut: ids from n_vocab on change nothing. */
void pf_rules_take(pf_rules *rules, const pf_logit_rules *given, const int32_t *stop, int32_t n_stop, int32_t n_vocab);

/* Apply them to logits [n_vocab] of the row behind tokens [n_tokens] and then more [n_more].
 * counts [n_vocab]: zero before and after. Ids outside of the vocabulary count for nothing. */
void pf_rules_apply(const pf_rules *rules, const int32_t *tokens, int32_t n_tokens, const int32_t *more, int32_t n_more,
                    int32_t *counts, float *logits, int32_t n_vocab);

#endif
