/*
 * The model drafter: a small model that follows committed prefixes and proposes the next tokens. It runs on any forward
 * backend.
 *
 * For each sequence it keeps a KV cache that runs ahead of the committed tokens, and that begins with what other sequences, closed
 * ones too, have computed of its prompt (model/backend/sequence_cache.h). After a verdict the common prefix is kept
 * and the rest rolled back (pf_forward_truncate); the missing tokens are fed together with the last committed one, and k
 * tokens are drafted, one pass each, batched over sequences.
 *
 *     proposed   d0 d1 d2 d3            KV holds prefix d0 d1 d2     (d3 has been drawn, not fed)
 *     verdict    d0 d1 c                truncate to prefix d0 d1; feed c -> draft from there
 *     verdict    d0 d1 d2 d3 b          nothing to truncate; feed d3 b
 *
 * The draft distribution is exactly the one that was sampled (invariant 3): at temperature above 0 with the method `rejection`, q is the
 * request's own temperature and filters applied to the draft's logits, truncated to max_declared entries and
 * renormalised, and the token is drawn from exactly that. With max_declared 0 the argmax is proposed (one-hot).
 * `coupled` draws with the target's noise. No drawn token is withheld (invariant 4): the decision to draw another
 * token is made before the draw.
 *
 * Its own draws use the open's seed: in process always (0 is a seed), on the wire if it is not 0. Otherwise each sequence gets
 * a seed derived from config.seed: with one seed for all, samples of one prompt would be exactly distributed but not
 * independent of each other.
 *
 * Length: fixed, or chosen token by token if the open asks for it (draft/length.h). A greedy proposal of chosen length may be a
 * tree, if the open allows trees: the chain, then second choices beside some of its tokens, which have not been fed. Drawn tokens have
 * siblings where the open asks for them (draft/siblings.h). The limits
 * are those of pf_host_draft_room. A full context, a full KV pool and logits without a number give an empty proposal, at once.
 * An open that is longer than the context, or has invalid parameters or ids, is refused.
 *
 * A draft with a mask token drafts a proposal in one pass or two, or as any other (draft/parallel.h, draft/passes.h). It is drafted ahead in
 * the last case alone.
 *
 * A long prompt is read in chunks: proposals for other sequences are drafted between two of them, and after the caller's
 * deadline collect returns an empty answer, and the next collect continues. Closing a sequence stops its prefill.
 *
 * proto/stream.h detects unknown, stale and reordered verdicts; a prefix request asks for missing tokens.
 * Threads: those of pf_peer (one caller). Memory: made at creation; a round allocates nothing.
 */
#ifndef PF_DRAFT_MODEL_DRAFTER_H
#define PF_DRAFT_MODEL_DRAFTER_H

#include "base/status.h"
#include "base/stop.h"
#include "draft/passes.h"
#include "model/backend/sequence_cache.h"
#include "proto/peer.h"

typedef struct {
    int32_t max_sequences;      /* at most the backend's, and PF_MAX_BATCH_SEQUENCES */
    int32_t max_draft;          /* tokens of a proposal, 1 .. PF_MAX_DRAFT_TOKENS */
    uint64_t seed;              /* a secret of a served drafter, for opens without a seed (0); 0: in process */
    uint64_t simulate_token_ns; /* a pass takes at least this long, as a larger draft's would; 0 */
    int32_t simulate_rows; /* and as long again for each so many rows, which share one read of its weights; 0: all do */
    bool pard;             /* the draft has a mask token, and drafts several tokens in a pass (draft/parallel.h) */
    int32_t pard_token;    /* of pard: the mask */
    pf_passes passes;      /* of pard: in how many passes a proposal is drafted */
    bool no_prefix_cache;  /* nothing is kept of closed sequences, nor shared between open ones */
    int32_t ahead_branches; /* of a sequence, where it is drafted ahead, at most; 0: as many as the backend has forks */
    bool
        ahead_if_it_pays; /* of drafting ahead (pf_peer_work_ahead): passes by the time of the verdict, and none where rounds are not
                              faster by it (draft/ahead.h); else whenever it is asked for. False gives the same passes each time */
    pf_stop stop; /* when set, drafting is abandoned and collect returns PF_CANCELLED; the drafter uses its clock */
    const pf_model_info *
        info; /* what pf_peer_info answers, copied; ids from its vocab_size on are never proposed. NULL: zero, all ids */
} pf_model_drafter_config;

/* What the backend points to is borrowed, used by nothing else, and must outlive the drafter. End it with pf_peer_destroy;
 * pf_host_reserved_bytes tells its memory.
 * PF_INVALID: a field is out of range (the sentence names it).  PF_NOMEM. */
PF_MUST_USE pf_status pf_model_drafter_create(pf_forward_backend backend, const pf_model_drafter_config *config,
                                              pf_peer **out, pf_error *error);

/* What its sequences found in the cache, since it was created. peer: a model drafter. */
pf_sequence_cache_counts pf_model_drafter_counts(const pf_peer *peer);

#endif
