/*
 * A synthetic pair: a draft and a target that agree on a token with a set probability, as forward backends without a model. What
 * is behind them, drafters, verifiers and their caches, is the real code.
 *
 * The logits of a row depend on the tokens before it alone, through a hash: noise for every token, and one that stands out. The
 * draft's row is the target's where the hash says that they agree, and has another token that stands out elsewhere; there the
 * target's token is its second choice as often as is set. Under greedy
 * decoding each draft token is then accepted with the same probability, whatever was before it: the assumption of the formulas
 * for the expected length (Leviathan et al. arXiv:2211.17192, section 3.1).
 *
 * Memory is bounded by the limits. Threads: one at a time.
 */
#ifndef PF_SIM_SYNTHETIC_H
#define PF_SIM_SYNTHETIC_H

#include "model/backend/forward_backend.h"

enum { PF_SYNTHETIC_VOCAB = 64 };

typedef struct {
    uint64_t seed; /* of the pair: the same for its draft and its target */
    bool is_draft;
    double acceptance; /* of the draft: how often it agrees with the target, 0 .. 1 */
    double second;     /* of the draft: where it does not, how often the target's token is its second choice, 0 .. 1 */
    int32_t max_tokens, max_sequences, max_rows, max_logit_rows, max_forks; /* pf_forward_limits */
    int32_t max_held; /* tokens that all sequences may hold together: more is PF_LIMIT, as a full cache; 0: no limit */
} pf_synthetic_config;

typedef struct pf_synthetic pf_synthetic;

/* End it with pf_synthetic_destroy. PF_INVALID: a limit is not positive, or the acceptance is out of range.  PF_NOMEM. */
PF_MUST_USE pf_status pf_synthetic_create(const pf_synthetic_config *config, pf_synthetic **out, pf_error *error);
void pf_synthetic_destroy(pf_synthetic *synthetic);

/* Borrows it. */
pf_forward_backend pf_synthetic_backend(pf_synthetic *synthetic);

/* Sequences that are acquired, and tokens that they hold. */
typedef struct {
    int32_t n_sequences, n_held;
} pf_synthetic_counts;
pf_synthetic_counts pf_synthetic_count(const pf_synthetic *synthetic);

#endif
