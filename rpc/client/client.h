/*
 * Connects to a drafter or verifier in another process, and presents it as a pf_peer.
 *
 *     submit:   encode, send (the call returns before the bytes are sent)
 *     collect:  poll with yields for a moment, then asleep, until an answer or the deadline
 *
 * A thread in collect polls for itself and needs no wakeup. A background thread polls while no thread collects (rpc/poller.h).
 * It reads ahead one answer at most, and reconnects: it calls GetModelInfo until a server answers, checks that the vocabulary is
 * the same (for a verifier also the model's name, since a text is one target's), and opens a new stream. Meanwhile submit and
 * collect return PF_UNAVAILABLE at once; no call blocks past its deadline.
 *
 * After PF_UNAVAILABLE the peer knows nothing: sequences have to be opened again.
 */
#ifndef PF_RPC_CLIENT_H
#define PF_RPC_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/peer.h"

typedef struct {
    uint64_t connect_timeout_ns; /* of the first contact; 0: 15 s, or 2 s with keep_trying */
    const volatile bool *cancel; /* set from outside: the first contact ends; or NULL */
    size_t memory_bytes;         /* of the machine: where it is little, gRPC holds less; 0: what there is */
    bool keep_trying;            /* the client is made even where no server answers at first */
} pf_rpc_client_config;

/* config NULL: the defaults. The caller ends *out with pf_peer_destroy. No fork in this process afterwards.
 * PF_INVALID: not an address.  PF_UNAVAILABLE: no server answers, or it rejects the call (the sentence names the
 * address).  PF_FORMAT: the answer is malformed, or the service is not served there. With keep_trying *out is set in
 * these two cases too, and the caller owns it.  PF_CANCELLED.  PF_UNSUPPORTED: another version of the protocol.
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_rpc_drafter_connect(const char *address, const pf_rpc_client_config *config, pf_peer **out,
                                             pf_error *error);
PF_MUST_USE pf_status pf_rpc_verifier_connect(const char *address, const pf_rpc_client_config *config, pf_peer **out,
                                              pf_error *error);

typedef struct {
    uint64_t n_streams;  /* opened so far: more than 1 after a reconnection */
    uint64_t n_received; /* batches */
} pf_rpc_client_stats;

/* For tests. peer: made by this file. Any thread. */
void pf_rpc_client_get_stats(pf_peer *peer, pf_rpc_client_stats *out);

#endif
