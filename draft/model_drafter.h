/*
 * The model drafter: a small model on this CPU that follows committed prefixes and proposes what comes next.
 *
 * For each sequence it keeps a KV cache that runs ahead of what is committed. A verdict either confirms what it
 * holds or does not: the common prefix is kept, the rest rolled back (pf_kv_truncate), the missing tokens are fed
 * together with the last committed one, and k tokens are drafted, one pass each, batched over sequences.
 *
 *     proposed   d0 d1 d2 d3            KV holds prefix d0 d1 d2     (d3 has been drawn, not fed)
 *     verdict    d0 d1 c                truncate to prefix d0 d1; feed c -> draft from there
 *     verdict    d0 d1 d2 d3 b          nothing to truncate; feed d3 b
 *
 * What is declared is what was sampled (invariant 3): at temperature above 0 with the method `rejection`, q is the
 * request's own temperature and filters applied to the draft's logits, truncated to max_declared entries and
 * renormalised, and the token is drawn from exactly that. With max_declared 0 the argmax is proposed (one-hot).
 * `coupled` draws with the target's noise. No drawn token is withheld (invariant 4): whether there is another is settled
 * before it is drawn.
 *
 * Its own draws come from the open's seed where it brings one: in process always, 0 being a seed as any other, and on the
 * wire where it is not 0. Else they come from config.seed, from which every such sequence gets a seed of its own: with one
 * for all, samples of one prompt would be drafted alike, each exactly distributed but not independent of the others.
 *
 * Length: fixed, or chosen token by token where the open asks for it (draft/length.h). There a greedy proposal may be a
 * tree, if the open says that trees are judged: the chain, then second choices beside some of its tokens, which have not been
 * fed. Neither has more tokens than the sequence may still commit less one, but at least 1, and than the draft's context has
 * room for. A draft whose context is full proposes nothing: an empty proposal, at once. So it does when the KV pool is full,
 * and when its logits are not numbers. An open longer than the context, or with parameters or ids that mean nothing here, is
 * refused.
 *
 * A long prompt is fed pass by pass: whoever else is asked for meanwhile is drafted for between them, and past the caller's
 * deadline collect comes back with an empty answer, and the next one goes on. A prompt that is closed is fed no further.
 *
 * Unknown, stale and reordered verdicts are told apart by proto/stream.h; a prefix request asks for what is missing.
 * Threads: those of pf_peer (one caller). Memory: made at creation; a round allocates nothing.
 */
#ifndef PF_DRAFT_MODEL_DRAFTER_H
#define PF_DRAFT_MODEL_DRAFTER_H

#include "base/status.h"
#include "base/stop.h"
#include "model/backend/forward_backend.h"
#include "proto/peer.h"

typedef struct {
    int32_t max_sequences;      /* at most the backend's, and PF_MAX_BATCH_SEQUENCES */
    int32_t max_draft;          /* tokens of a proposal, 1 .. PF_MAX_DRAFT_TOKENS */
    uint64_t seed;              /* of a served drafter's draws for opens that bring no seed (0); 0: it is in process */
    uint64_t simulate_token_ns; /* a pass takes at least this long, as a larger draft's would; 0 */
    int32_t simulate_rows; /* and as long again for each so many rows, which share one read of its weights; 0: all do */
    pf_stop stop; /* told so, it gives up what it drafts, and collect has PF_CANCELLED; its clock is the drafter's */
    pf_model_info info; /* what pf_peer_info answers; ids from info.vocab_size on are never proposed */
} pf_model_drafter_config;

/* What the backend points to is borrowed, used by nothing else, and must outlive the drafter. End it with pf_peer_destroy;
 * pf_host_reserved_bytes tells its memory.
 * PF_INVALID: a field is out of range (the sentence names it).  PF_NOMEM. */
PF_MUST_USE pf_status pf_model_drafter_create(pf_forward_backend backend, const pf_model_drafter_config *config,
                                              pf_peer **out, pf_error *error);

#endif
