/*
 * The calls of a server: streams, whose messages wait here for the computing thread, and the questions for health and
 * info, which are answered at once. Internal to rpc/.
 *
 * A call is freed when nothing refers to it any more: no event to come, not in line, and the computing thread has let
 * go of it. Whoever takes one of these away asks pf_call_is_done.
 *
 * Threads: what is here is guarded by the server's lock, unless it says otherwise.
 */
#ifndef PF_RPC_SERVER_CALLS_H
#define PF_RPC_SERVER_CALLS_H

#include <pthread.h>
#include <stdatomic.h>

#include "proto/health.h"
#include "rpc/address.h"
#include "rpc/dispatch.h"
#include "rpc/grpc_util.h"
#include "rpc/listener.h"
#include "rpc/poller.h"
#include "rpc/server.h"

enum {
    PF_UNARY_CALLS = 64, /* health and info at once, watches included */
    PF_N_INBOUND = 16,   /* batches of a stream that wait for the computing thread; then reading stops */
    PF_N_OUTBOUND = 64,  /* batches that a stream has not read; then it is cancelled */
    PF_END_TEXT_BYTES = 512,
};

/* Calls of all kinds that may be open at once. */
static inline int32_t pf_server_max_calls(const pf_server_config *config)
{
    return config->max_streams + PF_UNARY_CALLS;
}

/* What a completion event is about; a call has at most one of each under way. */
typedef enum {
    PF_EV_NEW,
    PF_EV_READ,
    PF_EV_METADATA,
    PF_EV_WRITE,
    PF_EV_STATUS,
    PF_EV_OVER,
    PF_N_EVENTS
} pf_event_kind;

typedef enum { PF_ROLE_UNKNOWN, PF_ROLE_STREAM, PF_ROLE_INFO, PF_ROLE_CHECK, PF_ROLE_WATCH } pf_call_role;

typedef struct pf_call pf_call;

typedef struct {
    pf_call *of; /* NULL: the server's shutdown */
    pf_event_kind kind;
} pf_call_tag;

typedef struct {
    grpc_byte_buffer *bytes;
    size_t n_bytes;
    uint64_t arrived_ns;
} pf_inbound;

/* One RPC. Everything but the first block is guarded by the server's lock. */
struct pf_call {
    pf_server *server;
    grpc_call *grpc;
    grpc_call_details details;
    grpc_metadata_array metadata;
    pf_call_tag tags[PF_N_EVENTS];
    pf_call_role role;
    pf_service service;
    int connection; /* the listener's word for it */

    int pending; /* events to come */
    bool held;   /* the computing thread may still look at it: a stream that has said something */
    bool reading, writing;
    bool opened;      /* initial metadata is on its way */
    bool half_closed; /* the client will send no more */
    bool ending;      /* a status is decided; sent once nothing is being written */
    bool ended;       /* the status is on its way, or nobody is left to read it */
    grpc_status_code end_code;
    char end_text[PF_END_TEXT_BYTES];
    int cancelled;              /* core's */
    grpc_byte_buffer *received; /* core's while reading */

    pf_inbound in[PF_N_INBOUND];
    int32_t in_head, in_count;
    grpc_byte_buffer *out[PF_N_OUTBOUND];
    int32_t out_head, out_count;
    size_t in_bytes;
    uint64_t quiet_ns; /* since when a stream that waits has heard nothing */

    bool is_ready, is_absorbed;
    bool has_sequences; /* of a stream: some were open when it was last looked at */
    bool has_place;     /* counts among those that may be open */
    uint64_t idle_ns;   /* since when it has had none open; of any other call: since when it is there */
    pf_call *next_ready, *next_absorbed;
    pf_call *next, *previous; /* all that are there, the oldest first */
    bool watches;             /* has said whose health */
    pf_health told;           /* to a watcher */
};

struct pf_server {
    pf_server_config config;
    pf_address address;
    char actual[PF_MAX_ADDRESS_BYTES];
    grpc_server *grpc;
    pf_listener *listener;
    pf_poller poller; /* its front is the computing thread */
    pf_call_tag shutdown_tag;

    /* The computing thread's alone. */
    pf_dispatch *dispatch[2]; /* by pf_service; NULL: not served */
    pf_codec *codec[2];
    pf_status failed;  /* of a peer as a whole */
    pf_call *absorbed; /* streams whose answers are being computed */
    bool is_behind;    /* some of it is left for later: others came meanwhile */
    bool shut;
    const volatile bool *told; /* to stop, by whoever runs the server; or NULL */
    uint64_t until_ns;         /* when open sequences are given up; 0: it has not been told to stop */

    uint8_t info[2][PF_MAX_INFO_BYTES];
    size_t info_bytes[2];

    atomic_bool stop, drained;

    pthread_mutex_t lock;
    pf_call *ready, **ready_end; /* streams with work, first come first served */
    pf_call *oldest, *youngest;  /* of all calls */
    pf_health health;
    int32_t n_calls;           /* all that are not freed, the one that is awaited too */
    int32_t n_open, n_streams; /* that have a place, and those of them that are streams */
    size_t queued_bytes;
};

/* With the server's lock held. */
void pf_call_read(pf_call *c);                            /* the next message */
bool pf_call_has_room(const pf_call *c);                  /* for one more: its own queue */
void pf_call_send(pf_call *c, grpc_byte_buffer *message); /* now, or after what is being sent; takes the message */
void pf_call_end(pf_call *c, grpc_status_code code, const char *text); /* once nothing is being written */
void pf_call_make_ready(pf_call *c);                                   /* in line for the computing thread */
void pf_call_tell_sequences(pf_call *c, bool any);                     /* whether a stream has any open */
bool pf_call_is_done(pf_call *c); /* nothing refers to it: it is out of every list, and pf_call_free may end it */

/* Without it. */
void pf_call_free(pf_call *c);
void pf_server_accept_call(pf_server *server); /* asks for the next call; each asks for another when it comes */
void pf_server_set_health(pf_server *server, pf_health health); /* and tells who watches */
void pf_server_give_signs(void *user); /* the poller's too: of life, to streams that have waited for long */
void pf_server_on_event(void *user, void *event_tag, bool success); /* the poller's; user: the server */

#endif
