/*
 * Copies batches with all that they point to, and keeps the messages until they are taken: a mailbox of one client, which
 * follows one sequence at a time.
 *
 *      held    | closes | one open | verdicts | proposals | prefix requests | refusals |      each kind has PF_HELD_MESSAGES at most
 *
 * A close removes the earlier messages of its sequence. So the kinds can be taken in the order of a batch (closes, opens, the
 * rest), although several batches came in another order.
 *
 * Memory is laid out at creation; nothing is allocated later. Threads: one at a time.
 */
#ifndef PF_HOST_HELD_BATCH_H
#define PF_HOST_HELD_BATCH_H

#include <stdbool.h>

#include "base/arena.h"
#include "proto/peer.h"

enum { PF_HELD_MESSAGES = 4 };

/* What the messages of a client may have at most. */
typedef struct {
    int32_t open_tokens;  /* of an open; 0: no opens are held */
    int32_t draft_tokens; /* of a proposal; 0: no proposals are held */
    int32_t max_declared; /* ids of a draft distribution */
    int32_t logprobs;     /* tokens of a verdict that has log-probabilities; 0: none are held */
} pf_held_room;

/* Where the arrays of a message are copied to. */
typedef struct {
    int32_t *tokens;       /* [draft_tokens] */
    int32_t *parents;      /* [draft_tokens] */
    pf_declared *declared; /* [draft_tokens] into the two below */
    int32_t *ids;          /* [draft_tokens, max_declared] */
    float *probabilities;  /* [draft_tokens, max_declared] */
} pf_held_proposal;

typedef struct {
    pf_held_room room;
    pf_batch batch; /* the messages that are held; may be changed in place, and is emptied by pf_held_clear */
    int32_t *open_tokens, *stop_tokens, *excluded;
    int32_t *bias_ids; /* [PF_MAX_LOGIT_BIASES] */
    float *biases;     /* [PF_MAX_LOGIT_BIASES] */
    pf_held_proposal proposals[PF_HELD_MESSAGES];
    int32_t *verdict_tokens[PF_HELD_MESSAGES];
    pf_token_logprobs *logprobs[PF_HELD_MESSAGES];   /* [room.logprobs] */
    char (*refusal_texts)[PF_MAX_REFUSAL_BYTES + 1]; /* [PF_HELD_MESSAGES] */
} pf_held_batch;

/* Its memory, from the arena (or its measure). */
void pf_held_lay_out(pf_held_batch *held, const pf_held_room *room, pf_arena *arena);

/* Adds the messages of a batch behind those that are held; the timing is the batch's. False: they do not fit, and nothing has
 * changed. */
PF_MUST_USE bool pf_held_add(pf_held_batch *held, const pf_batch *batch);

bool pf_held_is_empty(const pf_held_batch *held);
void pf_held_clear(pf_held_batch *held);

#endif
