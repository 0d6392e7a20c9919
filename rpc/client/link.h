/*
 * Keeps one stream to a server, and reconnects it when it breaks. Internal to rpc/.
 *
 *      down ---- reconnect_ns has come --> connecting ---- its model info fits ------> up ---- its status ---> closing
 *       ^                                      |                                                                  |
 *       |<------- no answer, or another model -+                                                                  |
 *       |<---------------------------------------- no operation is pending any more, reconnect_ns is set ---------+
 *
 * Threads: events are handled on the thread that polls (rpc/poller.h). All below `lock` is guarded by it, and functions require
 * it held unless they say otherwise.
 */
#ifndef PF_RPC_LINK_H
#define PF_RPC_LINK_H

#include <pthread.h>

#include "rpc/address.h"
#include "rpc/client/client.h"
#include "rpc/grpc_util.h"
#include "rpc/poller.h"

enum { PF_LINK_OUTBOUND = 32 }; /* batches that wait for the transport; past that the peer is disconnected */

typedef enum { PF_LINK_DOWN, PF_LINK_CONNECTING, PF_LINK_UP, PF_LINK_CLOSING } pf_link_state;

/* One RPC and what core writes into. */
typedef struct {
    grpc_call *grpc;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *received;
    grpc_status_code status;
    grpc_slice details;
    int pending; /* events to come */
} pf_link_call;

typedef struct {
    pf_rpc_client_config config; /* resolved */
    char address[PF_MAX_ADDRESS_BYTES];
    const char *stream_method, *info_method;
    bool one_model;             /* only a model of the same name may reconnect */
    char uri[PF_MAX_URI_BYTES]; /* the address, as gRPC takes it */
    grpc_channel *channel;
    int32_t attempt_ms; /* timeout of a connection attempt */
    pf_poller poller;   /* its front is the caller */

    pthread_mutex_t lock;
    pf_link_state state;
    bool stopping;
    bool lost;  /* a stream broke, and the caller has not been told */
    bool asked; /* the first contact has succeeded or failed */
    pf_status asked_status;
    uint64_t connect_deadline_ns; /* deadline of the first contact; 0: it has not begun */
    uint64_t asked_ns;            /* when the last GetModelInfo began */
    pf_error asked_error;
    bool known; /* info has been received */
    pf_model_info info;
    pf_error why; /* why it is down, or was last */
    uint64_t reconnect_ns;
    pf_link_call call;
    bool sending, reading;
    int32_t n_unanswered;     /* batches that ask for an answer, since the last one */
    uint64_t sent_ns;         /* when the last batch was taken */
    grpc_byte_buffer *answer; /* for the caller */
    grpc_byte_buffer *out[PF_LINK_OUTBOUND];
    int32_t out_head, out_count;
    pf_rpc_client_stats stats;
} pf_link;

/* With the lock held. Starts reading the next answer; the link must be up and not reading. */
void pf_link_read(pf_link *link);

/* With the lock held. Sends a message, or queues it, where there must be room. Takes ownership. */
void pf_link_send(pf_link *link, grpc_byte_buffer *message);

/* Without the lock. `config` and the methods are set, the rest is zero.
 * PF_NOMEM: nothing is left. Else end it with pf_link_stop. */
PF_MUST_USE pf_status pf_link_start(pf_link *link, const pf_address *address, pf_error *error);

/* Without the lock, once: connects and gets the model info. Status as pf_rpc_drafter_connect; on failure the link
 * keeps trying. */
PF_MUST_USE pf_status pf_link_connect(pf_link *link, pf_error *error);

/* Without the lock. False: gRPC still refers to a call, and the link must not be freed until the process ends. */
bool pf_link_stop(pf_link *link);

#endif
