/*
 * Maps the sequences of many streams to ids of one peer, and routes each answer back to its stream.
 *
 *     stream A, sequence 1 --+                               +--> proposal 16777217 --> stream A, sequence 1
 *                            +--> 16777217, 16777218 --> peer |
 *     stream B, sequence 1 --+                               +--> refusal 16777218  --> stream B, sequence 1
 *
 * A message about a sequence that is not open on its stream is answered here, with a prefix request; an open for which there is
 * no slot, or that the peer would refuse, with a refusal. No I/O, no gRPC, no allocation after creation.
 * Threads: one at a time, the one that may use the peer.
 */
#ifndef PF_HOST_DISPATCH_H
#define PF_HOST_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "host/prepared_answers.h"
#include "host/traffic.h"
#include "proto/codec.h"
#include "proto/peer.h"

typedef struct pf_dispatch pf_dispatch;

/* Sends a batch on a stream; the batch is borrowed for the call. */
typedef void pf_dispatch_send(void *user, void *stream, const pf_batch *batch);

/* peer is borrowed. idle_timeout_ns: when all slots are taken, a sequence of which its client has sent nothing for
 * that long, and that waits for nothing, is evicted. PF_INVALID: max_sequences not in 1 .. 2^24 - 1.  PF_NOMEM. End
 * with pf_dispatch_destroy. */
PF_MUST_USE pf_status pf_dispatch_create(pf_service service, pf_peer *peer, int32_t max_sequences,
                                         uint64_t idle_timeout_ns, pf_dispatch_send *send, void *user,
                                         pf_dispatch **out);
/* Counts in `traffic` what passes from here on; borrowed. */
void pf_dispatch_count_in(pf_dispatch *dispatch, pf_traffic *traffic);

/* Lets another thread answer what the peer has prepared (NULL: it prepares nothing); such a proposal is not sent again here. Until
 * pf_dispatch_destroy. */
pf_prepared_answers *pf_dispatch_prepare(pf_dispatch *dispatch);

void pf_dispatch_destroy(pf_dispatch *dispatch); /* NULL is fine; says nothing to the peer */

/* Passes a stream's batch to the peer. Its parts are rewritten in place. rejected (NULL: none): sequences that are
 * refused here, and closed at the peer where they are open. queue_ns: how long the batch has waited. PF_FORMAT: a part
 * that does not go this way in this service.  Else the status of the peer's submit. */
PF_MUST_USE pf_status pf_dispatch_submit(pf_dispatch *dispatch, void *stream, const pf_batch *batch,
                                         const pf_rejected *rejected, uint64_t queue_ns, pf_error *error);

/* Whether to leave the rest for a later collect: called at times while the peer computes. user: of pf_dispatch_create. */
typedef bool pf_dispatch_enough(void *user);

/* Computes and sends all that is due, or as much as there is until `enough` (NULL: never) returns true. PF_OK, or the
 * status of a peer that failed as a whole. */
PF_MUST_USE pf_status pf_dispatch_collect(pf_dispatch *dispatch, pf_dispatch_enough *enough, pf_error *error);

/* Whether work is left for a later collect. */
bool pf_dispatch_is_behind(const pf_dispatch *dispatch);

/* pf_peer_work_ahead, where no work is left. */
bool pf_dispatch_work_ahead(pf_dispatch *dispatch);

/* Whether work is left for this stream; valid after everything submitted has been collected once. */
bool pf_dispatch_owes(const pf_dispatch *dispatch, const void *stream);

/* Closes the sequences of a stream that has ended. Its pointer may be reused for another stream. */
void pf_dispatch_end_stream(pf_dispatch *dispatch, void *stream);

/* How many opens of other sequences find a slot; where all are taken, one is evicted as for an open. */
int32_t pf_dispatch_free_slots(pf_dispatch *dispatch);

bool pf_dispatch_is_open(const pf_dispatch *dispatch, const void *stream, uint64_t sequence);

/* The peer's number of a stream's sequence; 0: it is not open. */
uint64_t pf_dispatch_number(const pf_dispatch *dispatch, const void *stream, uint64_t sequence);

int32_t pf_dispatch_open_sequences(const pf_dispatch *dispatch);
bool pf_dispatch_has_sequences(const pf_dispatch *dispatch, const void *stream); /* open ones */

#endif
