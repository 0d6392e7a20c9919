/*
 * The gRPC client: a far drafter or a far verifier as a pf_peer.
 *
 *     submit:   encode, send (the call returns before the bytes are gone)
 *     collect:  poll with yields for a moment, then asleep, until an answer or the deadline
 *
 * Whoever is in collect polls for himself, and need not be woken. One thread of its own polls while nobody collects
 * (rpc/poller.h), reads ahead (one answer at most), and mends what breaks: it asks GetModelInfo until somebody answers, checks
 * that it is the same vocabulary (and a verifier's model of the same name, since a text is one target's), and opens a new
 * stream. In the meantime submit and collect say PF_UNAVAILABLE at once; nothing ever blocks longer than its deadline.
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
    bool keep_trying;            /* nobody there at first: a peer all the same, that goes on trying */
} pf_rpc_client_config;

/* config NULL: the defaults. The caller ends *out with pf_peer_destroy. No fork in this process afterwards.
 * PF_INVALID: not an address.  PF_UNAVAILABLE: nobody answers there, or who does turns us away (the sentence names the
 * address).  PF_FORMAT: the answer is nonsense, or the service is not served there. With keep_trying *out is set in these two
 * cases all the same, and the caller's to end.  PF_CANCELLED.  PF_UNSUPPORTED: another version of the protocol.  PF_NOMEM. */
PF_MUST_USE pf_status pf_rpc_drafter_connect(const char *address, const pf_rpc_client_config *config, pf_peer **out,
                                             pf_error *error);
PF_MUST_USE pf_status pf_rpc_verifier_connect(const char *address, const pf_rpc_client_config *config, pf_peer **out,
                                              pf_error *error);

typedef struct {
    uint64_t n_streams;  /* opened so far: more than 1 is a mended connection */
    uint64_t n_received; /* batches */
} pf_rpc_client_stats;

/* For tests. peer: one that this file made. Any thread. */
void pf_rpc_client_get_stats(pf_peer *peer, pf_rpc_client_stats *out);

#endif
