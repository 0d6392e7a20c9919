/*
 * Proposals that can be sent the moment that their verdict arrives, by another thread than the one that computes.
 *
 *      computing thread    put ........... a pass of the model ............ | claim, follow, remove
 *                           |                                              |
 *      receiving thread     |      verdict -> answer: sent at once; the message is queued as any other
 *
 * A drafter puts what it has drafted ahead for an outcome. The thread that receives a verdict of that outcome sends the proposal, and
 * the drafter is given the verdict later, between two passes: it takes the same branch and makes the same proposal, which is not sent again.
 *
 * Exactly one answer: an outcome is answered once, no other outcome of its sequence and round after it, and none once the computing
 * thread has claimed the sequence, which it does before the drafter is given a verdict. A verdict that does not fit in every field
 * (incarnation, round, base, tokens, the length that it asks for) is not answered here. What an outcome points to stays as it is until it
 * is removed, and is read under the lock alone.
 *
 * Memory at creation alone. Threads: any, where a function does not name one.
 */
#ifndef PF_HOST_PREPARED_ANSWERS_H
#define PF_HOST_PREPARED_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/messages.h"

typedef struct pf_prepared_answers pf_prepared_answers;

/* A verdict: n_accepted tokens of the proposal, and one more. The proposal's sequence is the peer's number. */
typedef struct {
    uint64_t round; /* of the verdict */
    int32_t base;
    const int32_t *accepted; /* [n_accepted] */
    int32_t n_accepted;
    int32_t token;
    int32_t
        wanted; /* tokens of a proposal, as it was planned: a verdict that asks for another number is not of this outcome */
    int32_t max_draft;    /* what a verdict asks for that says nothing, and at most */
    pf_proposal proposal; /* to send; not empty */
} pf_prepared_outcome;

/* Room for outcomes 0 .. n - 1. End with pf_prepared_destroy. PF_INVALID: n is not positive.  PF_NOMEM. */
PF_MUST_USE pf_status pf_prepared_create(int32_t n, pf_prepared_answers **out);
void pf_prepared_destroy(pf_prepared_answers *prepared); /* NULL is fine */

/* Which stream a peer's sequence belongs to, and its number there; false: to none. */
typedef bool pf_prepared_owner(void *user, uint64_t sequence, void **stream, uint64_t *number);

/* Outcomes are kept while there is an owner, which pf_prepared_put asks; NULL: there is none. On the computing thread. */
void pf_prepared_listen(pf_prepared_answers *prepared, pf_prepared_owner *owner, void *user);

/* Outcome i is drafted for; it was not there before. Whether it is kept. On the computing thread. */
bool pf_prepared_put(pf_prepared_answers *prepared, int32_t i, const pf_prepared_outcome *outcome);

/* Outcome i is not answered any more. On the computing thread; does nothing where it is not there. */
void pf_prepared_remove(pf_prepared_answers *prepared, int32_t i);

/* Likewise, but an outcome that has been sent stays, until its sequence is claimed. Whether it is gone. */
bool pf_prepared_withdraw(pf_prepared_answers *prepared, int32_t i);

/* When the proposal of outcome i was sent (pf_now_ns); 0: it was not. */
uint64_t pf_prepared_sent_ns(pf_prepared_answers *prepared, int32_t i);

/* The computing thread is about to give a verdict of this round to the peer: nothing of the sequence is answered from here on. Whether
 * its proposal has been sent. */
bool pf_prepared_claim(pf_prepared_answers *prepared, uint64_t sequence, uint64_t round);

/* Whether there is any outcome. */
bool pf_prepared_any(const pf_prepared_answers *prepared);

/* Sends proposals, with the stream's numbers, borrowed for the call; false: they cannot be sent, and are not. */
typedef bool pf_prepared_send(void *user, const pf_batch *batch);

/* Answers those verdicts of a stream's batch whose outcomes are there. How many. `send` is called under the lock, once at most. */
int32_t pf_prepared_answer(pf_prepared_answers *prepared, const void *stream, const pf_batch *batch,
                           pf_prepared_send *send, void *user);

#endif
