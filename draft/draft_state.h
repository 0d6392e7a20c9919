/* What the model drafter keeps of a sequence besides the host's part. Internal to draft/. */
#ifndef PF_DRAFT_DRAFT_STATE_H
#define PF_DRAFT_DRAFT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "draft/adaptive.h"
#include "draft/choose.h"
#include "model/sampling/rules.h"
#include "proto/messages.h"

typedef struct {
    bool is_cold;                /* opened, without a verdict yet: its prompt is read while the target reads it too */
    bool is_stuck;               /* the cache has no room for its prompt: the next proposal is empty */
    pf_sampling_request request; /* seeds included */
    pf_adaptive
        adaptive; /* where the open asks for it: decides after each token whether another is drawn; learns the acceptance
                             rates also where it is drafted ahead */
    int32_t excluded[2 * PF_MAX_EXCLUDED]; /* [2 * n_excluded] ranges of ids that are not proposed, below n_vocab */
    int32_t n_excluded;
    pf_rules rules;
    int32_t n_room;       /* tokens of the proposal in the making, at most, as it was begun */
    int32_t n_planned;    /* likewise, as it is now */
    int32_t n_passes;     /* that it has taken */
    pf_ahead ahead;       /* what drafting ahead found for the latest verdict, until the next proposal is begun */
    uint64_t sent_ns;     /* when the proposal in the making left, which was known before its verdict; 0: it has not */
    int32_t n_sent;       /* tokens of the proposal that waits for its verdict; -1: none does */
    int32_t siblings;     /* pf_open.siblings, where they are drawn; else 0 */
    int32_t n_siblings;   /* of the latest proposal, behind its chain of ... */
    int32_t n_chain;      /* ... so many tokens */
    pf_proposal proposal; /* in the making */
} pf_draft_state;

#endif
