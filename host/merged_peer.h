/*
 * Merges the batches that several clients submit into one, which the peer behind it gets when an answer is collected.
 *
 *      submit(A) submit(B) submit(C) collect   ->   peer: submit(A + B + C) collect
 *
 * A drafter counts the rows of a verification by the verdicts of one batch, so the verdicts of one pass must come together. What a
 * batch points to must stay valid until the next collect. Batches of clients are merged as they come: closes take effect first, then
 * opens, then the rest, so one client's messages about one sequence must be in that order (host/held_batch.h).
 *
 * A collect runs what is ready and one pass over a prompt at most: the deadline is not passed on.
 * Memory: fixed at creation. Threads: one caller at a time.
 */
#ifndef PF_HOST_MERGED_PEER_H
#define PF_HOST_MERGED_PEER_H

#include "base/status.h"
#include "proto/peer.h"

/* `inner` is borrowed. End it with pf_peer_destroy. PF_NOMEM. */
PF_MUST_USE pf_status pf_merged_peer_create(pf_peer *inner, pf_peer **out);

/* What the batches say of their sender's last step, from here on, in place of what each says of itself. compute_ns 0: the longest that
 * one of them says. */
void pf_merged_peer_set_step(pf_peer *merged, pf_timing step);

/* Submits now what has been merged. The status of the peer's submit. */
PF_MUST_USE pf_status pf_merged_peer_flush(pf_peer *merged);

#endif
