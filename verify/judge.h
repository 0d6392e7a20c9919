/*
 * Judges the rows of one sequence: from the target's logits and a proposal to the committed tokens. Internal to verify/.
 *
 * Rows are read along the accepted path up to the first rejection, so the softmax of a row is only computed if the row decides a
 * token:
 *
 *      greedy, or temperature 0      the argmax of the row
 *      coupled, or nothing proposed  the Gumbel-max draw with the target's noise of the row's position
 *      rejection                     p of the row against the draft distribution q, or one-hot without one,
 *                                    with the uniforms PF_NOISE_ACCEPT (position, 0: keep, 1: correction or bonus)
 *      block                         a chain as a whole against q; all its rows are read
 *      traversal                     a tree as a whole, from its leaves; all its rows are read
 *      typical                       p of the row against a threshold: the one lossy method
 *
 * A tree is judged as a tree, by block as by rejection. Where acceptance is synthetic, it replaces every rule.
 *
 * Where the backend draws, all draws of a pass are asked for first (pf_judge_ask, pf_judge_draw), and only tokens come back; elsewhere
 * the arithmetic is done here, on logits.
 *
 * The position of a row is the index in the sequence of the token that it decides. A draw depends on the seed, the
 * position and the prefix alone, not on the earlier rounds.
 */
#ifndef PF_VERIFY_JUDGE_H
#define PF_VERIFY_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "model/backend/forward_backend.h"
#include "model/sampling/rules.h"
#include "model/sampling/sampling.h"
#include "proto/messages.h"
#include "verify/accept.h"

typedef struct {
    pf_forward_backend backend; /* its last pass has the rows */
    int32_t n_vocab;            /* of the backend: the embedding's padding, too, is chosen where the model says so */
    float *p;                   /* [n_vocab] the current row */
    float *q;                   /* [n_vocab] zero between calls */
    float *r;                   /* [n_vocab] what is left of p */
    void *scratch;
    pf_draw *draws;         /* [max_logit_rows] of the last pass; NULL: the backend does not draw */
    pf_drawn *drawn;        /* [max_logit_rows] */
    int32_t *counts;        /* [n_vocab] zero between calls */
    float *at;              /* [PF_MAX_DRAFT_TOKENS * PF_MAX_DECLARED] of a traversal */
    const float *synthetic; /* rates of pf_accept_synthetic, borrowed; NULL: proposals are judged */
} pf_judge;

/* How the tokens of a sequence are judged. */
typedef struct {
    const pf_sampling
        *sampling; /* seed: the verifier's for this sequence; for coupled, the one that the drafter knows too */
    pf_method method;
    pf_typical typical; /* resolved: above 0; of the method typical */
    const pf_rules *rules;
    const int32_t *tokens; /* [position] the committed ones */
} pf_judged;

/* Memory from the arena (or its measure; see base/arena.h). synthetic: as above. */
pf_judge pf_judge_create(pf_forward_backend backend, const float *synthetic, pf_arena *arena);

/* Whether the backend draws: then each pass to be judged begins with pf_judge_ask for each proposal, and one pf_judge_draw. */
bool pf_judge_asks(const pf_judge *judge);

/* What pf_judge_proposal will read, which is called with the same. Borrows what the two point to until pf_judge_draw. A sequence
 * with rules is drawn for from its logits. */
void pf_judge_ask(pf_judge *judge, const pf_judged *sequence, const pf_drafted *drafted, int32_t first_row,
                  int32_t position);

/* Waits for the pass, and for the draws of rows 0 .. n_rows - 1, all of which were asked for. PF_UNAVAILABLE: the device failed. */
PF_MUST_USE pf_status pf_judge_draw(pf_judge *judge, int32_t n_rows);

/* Judges a proposal. Its logits are rows first_row .. first_row + n of the last pass: the row of the last committed token,
 * which decides `position`, then a row for each draft token. path [n]: out, the indices of the accepted tokens, ascending.
 * Where the sequence has rules the rows are changed by them.
 * A row without a number (for a draw: without one above minus infinity) decides nothing: the token before it is the last.
 * PF_UNSUPPORTED: it is the first row. */
PF_MUST_USE pf_status pf_judge_proposal(pf_judge *judge, const pf_judged *sequence, const pf_drafted *drafted,
                                        int32_t first_row, int32_t position, pf_acceptance *out, int32_t *path);

/* How many of the leading tokens of a proposal can be judged, of at most n_most (0 where that is negative): a count that
 * depends on what the peer sent and on what there is room for, never on what the tokens are worth. */
int32_t pf_judge_count_usable(const pf_judge *judge, const pf_proposal *proposal, int32_t n_most);

/* Of new tokens [n], how many are kept: no more than there is room for, none behind the first of the stop tokens [n_stop]. And
 * whether that is the end of the sequence. */
int32_t pf_judge_cut(const int32_t *tokens, int32_t n, int32_t room, const int32_t *stop, int32_t n_stop,
                     pf_finish *finish);

/* The pf_span.best_of of the pass to be judged: the vocabulary size if only the largest logit is read; 0 if all logits of a row
 * are, as for log-probabilities. */
int32_t pf_judge_best_of(const pf_judge *judge, const pf_sampling *sampling, const pf_rules *rules,
                         bool wants_logprobs);

/* Whether the target's own choice decides each token, independent of the proposal. */
bool pf_judge_is_exact(const pf_sampling *sampling, pf_method method);

#endif
