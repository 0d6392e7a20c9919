/*
 * The state machine of a stream: decides which message is current and which is stale, and recovers from lost messages.
 *
 * Pure: no I/O, no clock, no allocation after creation, so a simulator can drive it through loss, duplication,
 * reordering and restarts (tests/unit/proto/stream_simulation_test.c does). Both services of pilotfish.proto are one machine seen
 * from two sides:
 *
 *      owner      opens and closes sequences, numbers incarnations          engine (Drafter), worker (Verifier)
 *      answerer   follows, and asks for the prefix when it has lost it      worker (Drafter), target (Verifier)
 *
 * Either side keeps three numbers for a sequence, and a message is current only if it agrees with all of them:
 *
 *      incarnation   how often it has been opened
 *      round         the round of the next verdict
 *      committed     tokens decided so far: the base of that verdict, and of the proposal that it answers
 *
 *          open(r, n tokens)         verdict(r, base n, m tokens)          verdict(r + 1, base n + m, ...)
 *      round   r ------------------------> r + 1 -------------------------------> r + 2
 *      committed n ----------------------> n + m
 *
 * One invariant: both sides' committed length of a round is the same number of the same tokens, or the message is
 * not current. Nothing is resent: an answerer that misses a message asks for the prefix, an owner without an answer reopens.
 *
 * Threads: one at a time.
 */
#ifndef PF_PROTO_STREAM_H
#define PF_PROTO_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/messages.h"

/* What to do with a message. */
typedef enum {
    PF_FENCE_CURRENT = 0,        /* act on it */
    PF_FENCE_STALE,              /* drop it: late, a duplicate, or of a sequence that is gone */
    PF_FENCE_MISSING,            /* answerer: it is ahead of what is known here; send the prefix request and drop it */
    PF_FENCE_FULL,               /* answerer: no slot for another sequence; refuse it with PF_LIMIT */
    PF_FENCE_PROTOCOL_VIOLATION, /* owner: a correct peer never sends it; drop it, and distrust the peer */
} pf_fence;

/* ---- the owner's side ------------------------------------------------------------------------------------------ */

typedef struct pf_stream_owner pf_stream_owner;

/* Room for max_sequences alive at once. End with pf_stream_owner_destroy. PF_INVALID: not positive.  PF_NOMEM. */
PF_MUST_USE pf_status pf_stream_owner_create(int32_t max_sequences, pf_stream_owner **out);
void pf_stream_owner_destroy(pf_stream_owner *owner); /* NULL is fine */

/* Begin a sequence with a prompt of `committed` tokens: round 0. It is due for opening.
 * PF_INVALID: the id is in use, or committed is negative.  PF_LIMIT: max_sequences are alive. */
PF_MUST_USE pf_status pf_stream_owner_begin(pf_stream_owner *owner, uint64_t sequence, int32_t committed);

/* The sequence begins again with another prompt of `committed` tokens, round 0: what the peer says of earlier incarnations is
 * stale from now on. It is due for opening. PF_INVALID: unknown sequence, or committed is negative. */
PF_MUST_USE pf_status pf_stream_owner_restart(pf_stream_owner *owner, uint64_t sequence, int32_t committed);

/* The sequence is over; the caller sends the close. Unknown: nothing happens. */
void pf_stream_owner_end(pf_stream_owner *owner, uint64_t sequence);

/* Whether the peer must be (re)opened before anything else is said about the sequence. */
bool pf_stream_owner_due(const pf_stream_owner *owner, uint64_t sequence);

/* Put the fences of an open into *open: sequence, the next incarnation, next_round. It is then due no longer. The
 * caller adds tokens[0 .. *n_committed), all that is committed before next_round, and the rest. *n_committed is the
 * base of the verdict that follows: the owner's own for a Drafter (when reopening, in the same batch: open first,
 * then pf_stream_owner_commit), the answer for a Verifier.
 * PF_INVALID: unknown sequence. */
PF_MUST_USE pf_status pf_stream_owner_open(pf_stream_owner *owner, uint64_t sequence, pf_open *open,
                                           int32_t *n_committed);

/* Drafter: the owner has decided n_tokens more. Fills in sequence, incarnation, round and base of the verdict to
 * send (if the sequence is due, an open goes before it: call pf_stream_owner_open first), and expects the proposal
 * of the next round. PF_INVALID: unknown sequence, or n_tokens outside 0 .. PF_MAX_VERDICT_TOKENS. */
PF_MUST_USE pf_status pf_stream_owner_commit(pf_stream_owner *owner, uint64_t sequence, int32_t n_tokens,
                                             pf_verdict *verdict);

/* Drafter: a proposal has come in. CURRENT once a round, then STALE until the next commit. */
pf_fence pf_stream_owner_on_proposal(pf_stream_owner *owner, const pf_proposal *proposal);

/* Verifier: fill in sequence, incarnation, round and base of the proposal to send; its verdict may then accept up to
 * n_tokens. PF_INVALID: unknown sequence, not yet opened, or n_tokens outside 0 .. PF_MAX_DRAFT_TOKENS. */
PF_MUST_USE pf_status pf_stream_owner_propose(pf_stream_owner *owner, uint64_t sequence, int32_t n_tokens,
                                              pf_proposal *proposal);

/* Verifier: a verdict has come in. CURRENT: its tokens are committed. PROTOCOL_VIOLATION also if it accepts more than was
 * proposed, or its tokens are not the accepted ones and one more: that one may lack only where it finishes. */
pf_fence pf_stream_owner_on_verdict(pf_stream_owner *owner, const pf_verdict *verdict);

/* The round of the next verdict, and the incarnation: what a message had to carry. PF_INVALID: unknown sequence. */
PF_MUST_USE pf_status pf_stream_owner_expects(const pf_stream_owner *owner, uint64_t sequence, uint64_t *round,
                                              uint32_t *incarnation);

/* The peer has lost the sequence. CURRENT: it is due for opening from now on. */
pf_fence pf_stream_owner_on_prefix_request(pf_stream_owner *owner, const pf_prefix_request *request);

/* The peer refuses the sequence. CURRENT: the refusal is of its latest open; the sequence is then closed there. */
pf_fence pf_stream_owner_on_refusal(const pf_stream_owner *owner, const pf_refusal *refusal);

/* The stream broke and the peer lost its state: every sequence is due. */
void pf_stream_owner_lost(pf_stream_owner *owner);

/* The same for one sequence: an expected answer did not come. PF_INVALID: unknown. */
PF_MUST_USE pf_status pf_stream_owner_give_up(pf_stream_owner *owner, uint64_t sequence);

/* ---- the answering side ---------------------------------------------------------------------------------------- */

typedef struct pf_stream_answerer pf_stream_answerer;

/* As pf_stream_owner_create. */
PF_MUST_USE pf_status pf_stream_answerer_create(int32_t max_sequences, pf_stream_answerer **out);
void pf_stream_answerer_destroy(pf_stream_answerer *answerer); /* NULL is fine */

/* The slot of an open sequence; -1: it is not open. */
int32_t pf_stream_answerer_find(const pf_stream_answerer *answerer, uint64_t sequence);

/* In all of these *slot is a number in 0 .. max_sequences - 1 that is the sequence's own from its open to its close:
 * the caller's index for what it keeps. Set where the sequence is known after the call, else -1. */

/* CURRENT: opened, in the slot that it had where it was open before with a lower incarnation (the caller may keep the
 * tokens that the old and the new prefix share). STALE: a duplicate, or a lower incarnation. FULL. */
pf_fence pf_stream_answerer_on_open(pf_stream_answerer *answerer, const pf_open *open, int32_t *slot);

/* CURRENT: the slot is free again (its number is still told); STALE: unknown, nothing to do. */
pf_fence pf_stream_answerer_on_close(pf_stream_answerer *answerer, const pf_close *close, int32_t *slot);

/* Drafter: what the owner has decided. CURRENT: its tokens are committed here too. MISSING: *request is filled in. */
pf_fence pf_stream_answerer_on_verdict(pf_stream_answerer *answerer, const pf_verdict *verdict, int32_t *slot,
                                       pf_prefix_request *request);

/* Drafter: sequence, incarnation, round and base of the proposal that comes next for a slot in use. */
void pf_stream_answerer_propose(const pf_stream_answerer *answerer, int32_t slot, pf_proposal *proposal);

/* Verifier: a proposal to judge. CURRENT once a round. MISSING: *request is filled in. */
pf_fence pf_stream_answerer_on_proposal(pf_stream_answerer *answerer, const pf_proposal *proposal, int32_t *slot,
                                        pf_prefix_request *request);

/* Verifier: n_tokens (at most PF_MAX_VERDICT_TOKENS) more are decided for a slot in use, after an open or a current
 * proposal. Fills in sequence, incarnation, round and base of the verdict, and moves on to the next round. */
void pf_stream_answerer_commit(pf_stream_answerer *answerer, int32_t slot, int32_t n_tokens, pf_verdict *verdict);

#endif
