/*
 * Judging one sequence's rows: from the target's logits and a proposal to what is committed. Internal to verify/.
 *
 * Rows are looked at along the path that is kept and no further than the first refusal, so the softmax of a row, where one
 * is needed at all, is only made when the row decides something:
 *
 *      greedy, or temperature 0      the argmax of the row
 *      coupled, or nothing proposed  the Gumbel-max draw with the target's noise of the row's position
 *      rejection                     p of the row against the declared q, or against the one-hot of a bare token,
 *                                    with the uniforms PF_NOISE_ACCEPT (position, 0: keep, 1: correction or bonus)
 *
 * The position of a row is the index in the sequence of the token that it decides. What is drawn there depends on the
 * seed, the position and the prefix alone: not on the rounds that led there.
 */
#ifndef PF_VERIFY_JUDGE_H
#define PF_VERIFY_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "model/backend/forward_backend.h"
#include "model/sampling/sampling.h"
#include "proto/messages.h"
#include "verify/accept.h"

typedef struct {
    pf_forward_backend backend; /* its last pass has the rows */
    int32_t n_vocab;            /* of the backend: the embedding's padding, too, is chosen where the model says so */
    float *p;                   /* [n_vocab] the row in hand */
    float *q;                   /* [n_vocab] zero between calls */
    void *scratch;
} pf_judge;

/* Memory from the arena (or its measure; see base/arena.h). */
pf_judge pf_judge_create(pf_forward_backend backend, pf_arena *arena);

/* Judge the proposal whose logits are rows first_row .. first_row + n of the last pass: those of the last committed token,
 * which decide `position`, then each token's. path [n]: the n_accepted tokens that are kept, as indices, ascending.
 * sampling->seed is the verifier's for this sequence; for coupled, the one that the drafter knows too.
 * A row that holds no number, or for a draw none above minus infinity, decides nothing: the token before it is the last.
 * PF_UNSUPPORTED: it is the first row. */
PF_MUST_USE pf_status pf_judge_proposal(pf_judge *judge, const pf_sampling *sampling, pf_method method,
                                        const pf_drafted *drafted, int32_t first_row, int32_t position,
                                        pf_acceptance *out, int32_t *path);

/* How many of the leading tokens of a proposal can be judged, of at most n_most (0 where that is negative): a count that
 * depends on what the peer sent and on what there is room for, never on what the tokens are worth. */
int32_t pf_judge_count_usable(const pf_judge *judge, const pf_sampling *sampling, pf_method method,
                              const pf_proposal *proposal, int32_t n_most);

/* Of new tokens [n], how many are kept: no more than there is room for, none behind the first of the stop tokens [n_stop]. And
 * whether that is the end of the sequence. */
int32_t pf_judge_cut(const int32_t *tokens, int32_t n, int32_t room, const int32_t *stop, int32_t n_stop,
                     pf_finish *finish);

/* The pf_span.best_of of a pass whose rows are then judged: all tokens that may be chosen, where only the largest logit is
 * looked at; 0 where a row's other logits are, too. */
int32_t pf_judge_best_of(const pf_judge *judge, const pf_sampling *sampling);

/* Whether each token is decided by the target's own choice, whatever was proposed: then trees can be judged. */
bool pf_judge_is_exact(const pf_sampling *sampling, pf_method method);

#endif
