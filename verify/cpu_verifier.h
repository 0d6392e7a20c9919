/*
 * The reference verifier: a target model on this CPU that takes proposals and answers with verdicts.
 *
 * One batch of proposals is one forward pass: for each sequence the last committed token and its draft tokens,
 * n_draft + 1 rows, all sequences together. Acceptance decides; the KV cache keeps what was committed, less the last
 * token, whose keys the next pass computes.
 *
 *     committed  ... t8 t9          KV holds ... t8 (positions 0..8)
 *     proposal          d0 d1 d2    pass: rows t9 d0 d1 d2, logits of each
 *     verdict           d0 d1 c     KV truncated to ... t8 t9 d0 d1; c is the last committed token
 *
 * Plain decoding is the same call with an empty proposal: one row, one token. Plain and speculative texts are
 * therefore one code path, and equal for greedy and coupled (DESIGN, invariant 1).
 *
 * An open answers with the verdict of its round: the first token, from the prefill (or, reopened, the next one, as
 * after an empty proposal). EOS, max_tokens and the end of the context finish a sequence: what comes behind them in a
 * round is cut off before it is committed, and is not counted as accepted.
 *
 * A long prompt is fed pass by pass: whoever else has a proposal meanwhile is judged between them, and past the caller's
 * deadline collect comes back with an empty answer, and the next one goes on. A prompt that is closed is fed no further.
 *
 * What a peer can do wrong harms its own sequence alone. A proposal is judged up to its first token that cannot be:
 * one out of the vocabulary, past max_draft, or past what the context still holds.
 * A tree (proto/tree.h) is judged whole where the target's own choice decides, greedy and coupled; else its leading chain is.
 * An open that cannot be served, and a sequence that runs out of KV pages, is refused by name.
 *
 * Randomness. What is drawn at a position depends on the seed, the position and the prefix alone. A sequence's seed is
 * the one in its open, in this process for every method: plain decoding, coupled and rejection all draw from it, so
 * that a request with a seed can be repeated. On the wire the seed is 0 unless the method is coupled (a drafter that
 * knew the uniforms of acceptance could choose its tokens by them); a verifier with a seed of its own then draws one
 * for each such open.
 *
 * Threads: those of pf_peer (one caller). Memory: made at creation; a round allocates nothing.
 */
#ifndef PF_VERIFY_CPU_VERIFIER_H
#define PF_VERIFY_CPU_VERIFIER_H

#include "base/status.h"
#include "base/stop.h"
#include "model/backend/forward_backend.h"
#include "proto/peer.h"

typedef struct {
    int32_t max_sequences;     /* at most the backend's, and PF_MAX_BATCH_SEQUENCES */
    int32_t max_draft;         /* 1 .. PF_MAX_DRAFT_TOKENS; the backend must have max_logit_rows for max_draft + 1, and
                                   where it has none for max_sequences times that, batches are run in parts */
    uint64_t seed;             /* a secret of a served verifier, for opens that bring no seed (0, not coupled);
                                   0: theirs is taken as it is, 0 being a seed as any other */
    uint64_t simulate_step_ns; /* a verification takes at least this long, as a larger target's would; 0 */
    pf_stop stop;              /* told so, it gives up the pass that it is in, and collect has PF_CANCELLED */
    pf_model_info info;        /* what pf_peer_info answers */
} pf_cpu_verifier_config;

/* What the backend points to is borrowed, used by nothing else, and must outlive the verifier. End it with pf_peer_destroy;
 * pf_host_reserved_bytes tells its memory.
 * PF_INVALID: a field is out of range (the sentence names it).  PF_NOMEM. */
PF_MUST_USE pf_status pf_cpu_verifier_create(pf_forward_backend backend, const pf_cpu_verifier_config *config,
                                             pf_peer **out, pf_error *error);

#endif
