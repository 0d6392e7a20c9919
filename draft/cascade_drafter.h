/*
 * The cascade drafter: proposes what the suffix drafter finds where that is worth more than the model's proposal, else the model's.
 *
 *      verdict --> suffix drafter --> its proposal, and how much of it will be accepted
 *              \                        | worth more: it is sent, and the verdict tells the model that none is wanted (PF_NO_DRAFT)
 *               +-> model drafter  <----+ else: the model gets the verdict as it is
 *
 * A lookup takes no time and a model's pass does. Per round both are weighed by their gain:
 *
 *      gain = expected tokens - rate * expected time       rate: committed tokens a second, of all rounds lately
 *
 * The tokens of a lookup are those that its odds give (draft/lookup_odds.h), those of the model its mean; the time of a lookup's round
 * is that of its rows, on a line through what was measured, that of the model's round its mean. So where verifying takes long and the
 * draft is fast a lookup must be sure, and where the draft is slow a guess is worth its rows. Each is tried again now and then.
 *
 * The decision depends on committed tokens and on times, never on a token that was drawn (invariant 4). It depends on times: with
 * `rejection` a seed does not repeat its text.
 *
 * The model drafter is any peer that drafts. What it says of itself, its refusals and its prefix requests are the cascade's; a
 * sequence that the suffix drafter does not take is the model's alone.
 * Memory: made at creation; a round allocates nothing. Threads: those of pf_peer.
 */
#ifndef PF_DRAFT_CASCADE_DRAFTER_H
#define PF_DRAFT_CASCADE_DRAFTER_H

#include "draft/suffix_drafter.h"

/* lookup: a suffix drafter. Both are taken, also on failure, and end with the cascade. stop: of its clock.  PF_NOMEM. */
PF_MUST_USE pf_status pf_cascade_drafter_create(pf_peer *lookup, pf_peer *model, pf_stop stop, pf_peer **out,
                                                pf_error *error);

/* The model's peer, borrowed. peer: a cascade. */
pf_peer *pf_cascade_drafter_model(pf_peer *peer);

/* Proposals that were looked up, and rounds that were the model's, since it was created. peer: a cascade. */
typedef struct {
    int64_t n_lookups, n_models;
} pf_cascade_counts;
pf_cascade_counts pf_cascade_drafter_counts(const pf_peer *peer);

#endif
