/*
 * A forward backend in the vocabulary of a target, over the model of a draft that has another.
 *
 *      target's tokens    tok   en   izer           span, sequence, length: in these
 *      pieces             to k  en   iz er          what the draft's model is fed
 *      logits             [n_target]                the draft's row behind the last piece: of each id the logit of the draft's id with
 *                                                   the same text, of an id without one minus infinity
 *
 * So the distribution over a row is the draft's, restricted to the ids that both vocabularies have and renormalised: the
 * token-level intersection of Timor et al., arXiv:2502.05202, section 3.2. Whatever is drawn from it is an id of the target, and
 * noise, filters and penalties are by these ids.
 *
 * A sequence knows where the pieces of each of its tokens end, so truncate, fork and keep are exact. A run takes as many passes of
 * the model as its pieces need; where one fails, what those before it have fed is truncated. Where the pieces of a sequence exceed
 * the model's context, run has PF_INVALID.
 *
 * Where the draft has a mask token, id n_target is fed for it: one piece, and no row has it.
 *
 * Trees and spans that ask for the best token only are not supported: it is a draft's backend.
 * Memory is made at creation; a pass allocates nothing. Threads: as forward_backend.h.
 */
#ifndef PF_MODEL_MAPPED_BACKEND_H
#define PF_MODEL_MAPPED_BACKEND_H

#include "model/backend/forward_backend.h"

/* What a target's ids are to a draft. Borrowed by the backend for its life. */
typedef struct {
    int32_t n_target;        /* ids of the target */
    int32_t n_shared;        /* that have a counterpart */
    const int32_t *draft_of; /* [n_target] the draft's id with the same text, another for each; -1: there is none */
    const int32_t
        *ends; /* [n_target] where the pieces of each end, behind those of the ids before it; each has at least one */
    const int32_t *pieces; /* [ends[n_target - 1]] ids of the draft */
    int32_t longest;       /* the most pieces of an id */
    bool has_mask;         /* the draft has a mask token (draft/parallel.h): id n_target stands for it, where ... */
    int32_t mask;          /* ... this is the draft's id */
} pf_token_map;

typedef struct pf_mapped_backend pf_mapped_backend;

/* inner is borrowed, and must outlive it. PF_INVALID: a pass of inner has too few rows for the longest id.  PF_NOMEM. */
PF_MUST_USE pf_status pf_mapped_backend_create(const pf_forward_backend *inner, const pf_token_map *map,
                                               pf_mapped_backend **out, pf_error *error);
void pf_mapped_backend_destroy(pf_mapped_backend *mapped); /* NULL is fine */

pf_forward_backend pf_mapped_backend_as_backend(pf_mapped_backend *mapped);

#endif
