/*
 * The choice drafter: a peer before several drafters, which gives each sequence to the one that its open names (pf_open.drafter).
 *
 *      open "suffix", verdicts  --> suffix drafter  --+
 *      open "ngram"             --> n-gram drafter  --+--> answers of lookups, at once  (draft/lookup_answers.h)
 *      open "cascade"           --> suffix drafter  --+         which of the two proposes a round: draft/cascade_rounds.h
 *                             \ --> model drafter   --+
 *      open "model"             --> model drafter   --+--> its answers, as they are
 *
 * A cascade is the suffix drafter and the model drafter together: both follow the text, and in each round the one of which more is
 * expected proposes; where that is a lookup the verdict tells the model that none is wanted (PF_NO_DRAFT). So every name that has a
 * model has the same one, and every name that looks suffixes up has the same corpus. A sequence of a cascade that the suffix drafter
 * does not take is the model's alone.
 *
 * Lookups are asked in submit, for what they take is little beside a pass; a long prompt is read there, too.
 *
 * A sequence may be opened again under another name: it is closed where it was. A name that is not offered is refused.
 *
 * What the peer says of itself is what its model says, or of lookups alone the first, with the names that are offered.
 * Memory: made at creation; a round allocates nothing. Threads: those of pf_peer.
 */
#ifndef PF_DRAFT_CHOICE_DRAFTER_H
#define PF_DRAFT_CHOICE_DRAFTER_H

#include "base/stop.h"
#include "draft/drafter_kind.h"
#include "proto/peer.h"

typedef struct {
    pf_peer *model;              /* of model and cascade: any peer that drafts */
    pf_peer *suffix;             /* of suffix and cascade: a suffix drafter */
    pf_peer *ngram;              /* of ngram */
    const pf_drafts_by *offered; /* [n_offered] distinct; the first is the default */
    int32_t n_offered;
    pf_stop stop; /* of its clock */
} pf_choice_drafter_config;

/* The peers are those that the offered names need, no other. They are taken, also on failure, and end with the choice. PF_NOMEM. Else as
 * pf_peer_info of the model. */
PF_MUST_USE pf_status pf_choice_drafter_create(const pf_choice_drafter_config *config, pf_peer **out, pf_error *error);

/* Bytes that its drafters have reserved for their sequences; of another peer than a choice that peer. */
size_t pf_choice_drafter_reserved_bytes(const pf_peer *peer);

/* Until when its drafters propose nothing, by the clock of its parts: all of them, as long as the first goes on; 0: one drafts. Of another peer
 * than a choice that peer's (pf_host_rests_until_ns). */
uint64_t pf_choice_drafter_rests_until_ns(const pf_peer *peer);

/* Rounds of cascades that were looked up, and that were the model's, since it was created. peer: a choice. */
typedef struct {
    int64_t n_lookups, n_models;
} pf_choice_counts;
pf_choice_counts pf_choice_drafter_counts(const pf_peer *peer);

#endif
