/*
 * Holds what lookups have answered until it is handed out as one batch: they answer at once, in a submit, and their answers are borrowed
 * until their next call.
 *
 *      hold, refuse, ask     of any lookups                 hand_out      all of it; empty afterwards
 *
 * A proposal is held by the slot of its sequence. Memory: made at creation; a round allocates nothing. Threads: one at a time.
 */
#ifndef PF_DRAFT_LOOKUP_ANSWERS_H
#define PF_DRAFT_LOOKUP_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/messages.h"

typedef struct pf_lookup_answers pf_lookup_answers;

/* For slots 0 .. max_sequences - 1. End it with pf_lookup_answers_destroy. PF_NOMEM. */
PF_MUST_USE pf_status pf_lookup_answers_create(int32_t max_sequences, pf_lookup_answers **out);
void pf_lookup_answers_destroy(pf_lookup_answers *answers); /* NULL is fine */

/* Copies a proposal for the sequence of a slot, in place of the one that is held. It declares no distributions. */
void pf_lookup_answers_hold(pf_lookup_answers *answers, int32_t slot, const pf_proposal *proposal);
void pf_lookup_answers_drop(pf_lookup_answers *answers, int32_t slot); /* without one: nothing happens */
bool pf_lookup_answers_holds(const pf_lookup_answers *answers, int32_t slot);

/* Copied; of more than PF_MAX_BATCH_SEQUENCES the first. */
void pf_lookup_answers_refuse(pf_lookup_answers *answers, const pf_refusal *refusal);
void pf_lookup_answers_ask(pf_lookup_answers *answers, const pf_prefix_request *request);

/* Whether there is nothing to hand out. */
bool pf_lookup_answers_are_empty(const pf_lookup_answers *answers);

/* As a batch, borrowed until the next call on the answers. */
pf_batch *pf_lookup_answers_hand_out(pf_lookup_answers *answers);

#endif
