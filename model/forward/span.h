/* A sequence's part of a forward pass: the tokens to run, and which of their logits are wanted. */
#ifndef PF_MODEL_SPAN_H
#define PF_MODEL_SPAN_H

#include <stdint.h>

/* New tokens of one sequence, behind what its KV holds. They may be a tree: a token then stands right behind its parent,
 * and its logits are those of the chain of its path. Its KV holds all of them, row behind row; before more is appended
 * pf_kv_keep must choose a path, or pf_kv_truncate forget them. */
typedef struct {
    int64_t sequence;       /* of the cache */
    const int32_t *tokens;  /* [n_tokens] */
    int32_t n_tokens;       /* at least 1 */
    int32_t n_logits;       /* of the last n_logits rows, 0 .. n_tokens */
    const int32_t *parents; /* [n_tokens] the row that each one follows, before it; -1: the KV. NULL: a chain */
    int32_t best_of;        /* of a row only the best of the first best_of is asked for (PF_HEAD_BOUNDED); 0: logits */
} pf_span;

#endif
