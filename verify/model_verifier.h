/*
 * The verifier: a target model that takes proposals and answers with verdicts. It runs on any forward backend.
 *
 * One batch of proposals is one forward pass: for each sequence the last committed token and its draft tokens,
 * n_draft + 1 rows, all sequences together. The KV cache keeps the committed tokens except the last one: the next pass computes
 * its keys.
 *
 *     committed  ... t8 t9          KV holds ... t8 (positions 0..8)
 *     proposal          d0 d1 d2    pass: rows t9 d0 d1 d2, logits of each
 *     verdict           d0 d1 c     KV truncated to ... t8 t9 d0 d1; c is the last committed token
 *
 * Plain decoding is the same call with an empty proposal: one row, one token. Plain and speculative decoding are
 * therefore one code path, and their texts are equal for greedy and coupled (DESIGN, invariant 1).
 *
 * An open is answered with the verdict of its round: the first token, from the prefill (or, reopened, the next one, as
 * after an empty proposal). EOS, max_tokens and the end of the context finish a sequence: later tokens of the round are
 * discarded and do not count as accepted.
 *
 * A prompt is read from where it stops being one that the cache has, of an open sequence or a closed one
 * (model/backend/sequence_cache.h). A long one is read in chunks: proposals of other sequences are judged between two of them, and after the caller's
 * deadline collect returns an empty answer, and the next collect continues. Closing a sequence stops its prefill.
 *
 * An invalid message affects its own sequence alone. A proposal is judged up to its first invalid token: one outside the
 * vocabulary, beyond max_draft, or beyond the context.
 * A tree (proto/tree.h) is judged whole under greedy and coupled; under rejection only its leading chain is.
 * An open that cannot be served, and a sequence that runs out of KV pages, is refused with a sentence.
 *
 * Randomness. A draw depends on the seed, the position and the prefix alone. In this process the seed of the open serves every
 * method (plain decoding, coupled and rejection), so that a request with a seed can be repeated. On the wire the seed is 0 unless the method is coupled (a drafter that
 * knew the uniforms of acceptance could choose its tokens by them); a verifier with a seed of its own then draws one
 * for each such open.
 *
 * Threads: those of pf_peer (one caller). Memory: made at creation; a round allocates nothing.
 */
#ifndef PF_VERIFY_MODEL_VERIFIER_H
#define PF_VERIFY_MODEL_VERIFIER_H

#include "base/status.h"
#include "base/stop.h"
#include "model/backend/sequence_cache.h"
#include "proto/peer.h"

typedef struct {
    int32_t max_sequences;     /* at most the backend's, and PF_MAX_BATCH_SEQUENCES */
    int32_t max_draft;         /* 1 .. PF_MAX_DRAFT_TOKENS; the backend must have max_logit_rows for max_draft + 1, and
                                   where it has none for max_sequences times that, batches are run in parts */
    uint64_t seed;             /* a secret of a served verifier, for opens without a seed (0, not coupled);
                                   0: the open's seed is used as it is, 0 included */
    uint64_t simulate_step_ns; /* a verification takes at least this long, as a larger target's would; 0 */
    bool no_prefix_cache;      /* nothing is kept of closed sequences, nor shared between open ones */
    const float *synthetic;    /* conditional rates of pf_accept_synthetic, borrowed; NULL: proposals are judged */
    pf_stop stop;              /* when set, the running pass is abandoned and collect returns PF_CANCELLED */
    const pf_model_info *info; /* what pf_peer_info answers; copied. NULL: zero */
} pf_model_verifier_config;

/* What the backend points to is borrowed, used by nothing else, and must outlive the verifier. End it with pf_peer_destroy;
 * pf_host_reserved_bytes tells its memory.
 * PF_INVALID: a field is out of range (the sentence names it).  PF_NOMEM. */
PF_MUST_USE pf_status pf_model_verifier_create(pf_forward_backend backend, const pf_model_verifier_config *config,
                                               pf_peer **out, pf_error *error);

/* What its sequences found in the cache, since it was created. peer: a model verifier. */
pf_sequence_cache_counts pf_model_verifier_counts(const pf_peer *peer);

#endif
