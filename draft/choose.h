/*
 * Chooses one draft token from the draft's logits, and returns the distribution it was drawn from. Internal to draft/.
 *
 *      greedy, or temperature 0       the argmax: no softmax, no distribution
 *      coupled                        the Gumbel-max draw with the target's noise of the position: no distribution
 *      rejection                      a draw from q = the request's filters, then the max_declared largest,
 *                                     renormalised: exactly this q is declared (DESIGN, invariant 3)
 *      rejection, max_declared 0      the argmax: judged as one-hot, exact because it is independent of the uniforms
 *
 * Every chosen token is proposed (invariant 4). Its margin decides whether another token is drawn after it and whether the second
 * choice is proposed beside it (draft/length.h).
 */
#ifndef PF_DRAFT_CHOOSE_H
#define PF_DRAFT_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "draft/outcomes.h"
#include "model/sampling/sampling.h"
#include "proto/messages.h"

typedef struct {
    const pf_kernels *kernels;
    int32_t n_vocab; /* ids that may be proposed: those that exist, without the embedding's padding */
    float *p;        /* [n_vocab] */
    void *scratch;
    int32_t *counts; /* [n_vocab] zero between calls: of model/sampling/rules.h */
} pf_chooser;

/* Memory from the arena (or its measure; see base/arena.h). */
pf_chooser pf_chooser_create(const pf_kernels *kernels, int32_t n_vocab, pf_arena *arena);

/* How the tokens of a sequence are chosen. */
typedef struct {
    pf_sampling sampling; /* seed: the target's noise, for coupled */
    pf_method method;
    int32_t max_declared;
    uint64_t draft_seed; /* the drafter's own, for this sequence alone, so that draws of sequences are independent */
} pf_sampling_request;

/* Whether tokens come with the distribution that they were drawn from. */
bool pf_sampling_request_declares(const pf_sampling_request *request);

/* The token for `position` from logits [at least n_vocab], and, if the request declares, its distribution into ids and
 * probabilities [max_declared], *n_declared entries. `round` makes the draws of two rounds at the same position
 * independent.
 * PF_UNSUPPORTED: none of the logits is above minus infinity. */
PF_MUST_USE pf_status pf_choose_token(const pf_chooser *chooser, const pf_sampling_request *request,
                                      const float *logits, int32_t position, uint64_t round, int32_t *token,
                                      int32_t *ids, float *probabilities, int32_t *n_declared);

/* How far the logit of `token` lies above the best other's, in nats; negative where one is above it. Not a number where the
 * two are no numbers or infinite. *second_choice is that other, the lowest of equals; -1 where none is above minus infinity:
 * the margin is then +infinity. */
float pf_choose_margin(const pf_chooser *chooser, const float *logits, int32_t token, int32_t *second_choice);

/* What the target may choose at `position` in the place of `token`, by these logits; token -1: what it may choose at all. Under
 * coupled by the target's noise, among the draft's most probable tokens. */
void pf_choose_alternatives(const pf_chooser *chooser, const pf_sampling_request *request, const float *logits,
                            int32_t position, int32_t token, pf_outcome_row *row);

#endif
