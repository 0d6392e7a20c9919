/*
 * A bounded head: which token has the largest logit, without all of the head's product, and still exactly.
 *
 * The head is there twice, in the model's own format and in INT8, half the bytes of BF16. A row x is multiplied with the
 * second, and from the errors of that (kernels/sample/bounds.h) follows which panels of the first may hold the largest
 * logit: a few, and these are multiplied as they always are. So the largest logit has the bits that a full head gives it,
 * and whoever asks for the best token alone, a greedy target, is told the same one.
 *
 * x goes in as two rows of int8, what int8 keeps of it and what it loses (split). model/weights/head_errors.h derives the
 * errors, and measures them when a model is loaded.
 */
#ifndef PF_MODEL_BOUNDED_HEAD_H
#define PF_MODEL_BOUNDED_HEAD_H

#include "model/forward/pass.h"

/* Whether the pass at hand may go this way: there are rows, few of them, and it was not in vain lately. */
bool pf_bounded_head_is_for(const pf_context *context);

/* A member's part, by all members of the pass, of n_rows rows, `normed` and packed as `input`. Of the context's logits only
 * those are written that may be the largest of the first best_of. */
void pf_bounded_head_run(const pf_context *context, pf_member member, pf_rows normed, const void *input,
                         int32_t n_rows);

/* Then, the best of row i: as pf_context_best. */
int32_t pf_bounded_head_best(const pf_context *context, int32_t i);

/* The pass is over: where much was computed anew, the next ones go the other way. */
void pf_bounded_head_note(pf_context *context);

#endif
