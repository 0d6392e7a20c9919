/*
 * Computes the logits of a sequence naively: the definition of the forward pass, for every layer plan (model/config/plan.h).
 *
 * One thread, F32 weights, rows and sums in double, plain loops, no cache, no kernel. The engine is tested against it. It is as
 * slow as it is short: for tests and small models.
 */
#ifndef PF_MODEL_FORWARD_REF_H
#define PF_MODEL_FORWARD_REF_H

#include "model/files/checkpoint.h"

/*   tokens          [n_tokens]              each below vocab_size; the sequence begins at position 0
 *   context_tokens  what the length-dependent rotary frequencies are for (pf_rope_frequencies); at least n_tokens
 *   logits          [n_tokens, vocab_size]  out
 * PF_INVALID: no token, one beyond the vocabulary, or more tokens than learnt positions.  PF_UNSUPPORTED: the weights are
 * integers.  PF_NOMEM.  Else as pf_checkpoint_matrix. On a failure the logits are not complete. */
PF_MUST_USE pf_status pf_forward_ref(const pf_checkpoint *checkpoint, const int32_t *tokens, int32_t n_tokens,
                                     int32_t context_tokens, double *logits, pf_error *error);

#endif
