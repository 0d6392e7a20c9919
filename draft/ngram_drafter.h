/*
 * The n-gram drafter, or prompt lookup: proposes what followed the last time that the latest tokens occurred.
 *
 *      committed    ... the cat sat on the mat . the cat      longest suffix that occurred before: "the cat"
 *      proposed                                      sat on the mat
 *
 * The longest suffix of the committed tokens, of PF_NGRAM_MAX to 1 tokens, is looked up among them; of several occurrences the
 * latest counts, and the tokens behind it are the proposal. A proposal is a chain without draft distributions: it is fixed
 * before any noise is drawn, so every method is exact with it. Without an occurrence it is empty.
 *
 * Where it is to choose the length it is that of the highest goodput of all sequences together (draft/goodput.h), by how often tokens behind
 * suffixes of such a length have been accepted (draft/lookup_odds.h).
 *
 * It has no model: its vocabulary and its context are the target's, as in the pf_model_info it is given. A lookup is a scan of the
 * sequence, and a round allocates nothing.
 *
 * Source: Saxena, Prompt Lookup Decoding, 2023; Yang et al., arXiv:2304.04487 (LLMA).
 */
#ifndef PF_DRAFT_NGRAM_DRAFTER_H
#define PF_DRAFT_NGRAM_DRAFTER_H

#include "base/status.h"
#include "base/stop.h"
#include "proto/peer.h"

enum {
    PF_NGRAM_MAX = 4,
    PF_NGRAM_ADAPTIVE_DRAFT = 8, /* tokens of a proposal at most where the drafter is to choose */
};

/* max_sequences and max_draft as of pf_host_config; stop: of its clock. `target`: of its vocabulary, context and fingerprint; copied. End it with
 * pf_peer_destroy.
 * PF_INVALID: a limit is out of range (the sentence names it).  PF_NOMEM. */
PF_MUST_USE pf_status pf_ngram_drafter_create(const pf_model_info *target, int32_t max_sequences, int32_t max_draft,
                                              pf_stop stop, pf_peer **out, pf_error *error);

#endif
