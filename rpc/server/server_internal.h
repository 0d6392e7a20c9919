/*
 * What the files of a server share. Internal to rpc/server.
 *
 *      server.c               creation, running, shutdown
 *      server_compute.c       the computing thread, between streams and peers
 *      server_events.c        events of the completion queue: new calls, messages, ends
 *      server_prepared.c      verdicts that are answered on arrival, whatever the computing thread does
 *      server_calls.c         one call: reading, writing, when it may be freed
 *      server_call_limits.c   how many calls; eviction and rejection
 *      server_health.c        health checks and watches
 *
 * A call is freed when nothing refers to it any more: no pending event, not queued, and released by the computing thread. Code
 * that removes one of these references calls pf_call_retire.
 *
 * Threads: all is guarded by the server's lock, and functions require it held, unless they say otherwise.
 */
#ifndef PF_RPC_SERVER_INTERNAL_H
#define PF_RPC_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "host/dispatch.h"
#include "host/invalid_log.h"
#include "proto/health.h"
#include "rpc/address.h"
#include "rpc/grpc_util.h"
#include "rpc/listener/listener.h"
#include "rpc/poller.h"
#include "rpc/message_budget.h"
#include "rpc/server/server.h"
#include "rpc/service.h"

enum {
    PF_UNARY_CALLS = 64, /* health and info calls at once, watches included */
    PF_N_INBOUND = 16,   /* batches of a stream that wait for the computing thread; past that reading stops */
    PF_N_OUTBOUND = 64,  /* batches that the client has not read; past that the stream is cancelled */
    PF_END_TEXT_BYTES = 512,
};

/* Calls of all kinds that may be open at once. */
static inline int32_t pf_server_max_calls(const pf_server_config *config)
{
    return config->max_streams + PF_UNARY_CALLS;
}

/* The kind of a completion event; a call has at most one of each pending. */
typedef enum {
    PF_EV_NEW,
    PF_EV_READ,
    PF_EV_METADATA,
    PF_EV_WRITE,
    PF_EV_STATUS,
    PF_EV_OVER,
    PF_N_EVENTS
} pf_event_kind;

typedef enum { PF_CALL_UNKNOWN, PF_CALL_STREAM, PF_CALL_INFO, PF_CALL_CHECK, PF_CALL_WATCH } pf_call_role;

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
    int connection;  /* as the listener names it */
    uint64_t client; /* of the texts of a stream: no other call of this server has had the number */

    int pending; /* pending events */
    bool held;   /* the computing thread may still use it: a stream that has sent a message */
    bool reading, writing;
    bool opened;      /* initial metadata has been sent */
    bool half_closed; /* the client will send no more */
    bool ending;      /* a status is set; sent once nothing is being written */
    bool ended;       /* the status has been sent, or the client is gone */
    grpc_status_code end_code;
    char end_text[PF_END_TEXT_BYTES];
    int cancelled;              /* core's */
    grpc_byte_buffer *received; /* core's while reading */

    pf_inbound in[PF_N_INBOUND];
    int32_t in_head, in_count;
    grpc_byte_buffer *out[PF_N_OUTBOUND];
    int32_t out_head, out_count;
    size_t in_bytes;
    size_t unread_bytes, writing_bytes; /* queued and being written; and of the latter */
    uint64_t waiting_since_ns;          /* since when a waiting stream has been sent nothing */

    bool is_ready;      /* queued for the computing thread, or just taken from its queue */
    bool is_in_round;   /* in the server's list of that name */
    bool awaits_answer; /* of a stream: the peer owed it an answer at the last check, or it has sent a message since */
    bool has_sequences; /* of a stream: some were open at the last check */
    bool has_slot;      /* it is counted in n_open (server_call_limits.c) */
    bool is_finished;   /* rejected or finished, and the listener has been told */
    uint64_t idle_ns;   /* since when a stream has no open sequence; of any other call: since it began */
    pf_call *next_ready, *next_in_round;
    pf_call *next, *previous; /* all calls, the oldest first */
    bool watches;             /* its request has arrived */
    pf_health sent_health;    /* the last one sent to a watch */
};

/* The answer to GetModelInfo. */
typedef struct {
    uint8_t bytes[PF_MAX_INFO_BYTES];
    size_t n_bytes;
} pf_encoded_info;

struct pf_server {
    pf_server_config config;
    pf_message_budget room;
    pf_address address;
    char actual[PF_MAX_ADDRESS_BYTES];
    grpc_server *grpc;
    pf_listener *listener;
    pf_poller poller;              /* its front is the computing thread */
    pf_prepared_answers *prepared; /* of the drafter; NULL: it drafts nothing ahead */
    pf_call_tag shutdown_tag;

    /* Used by the computing thread alone. */
    pf_dispatch *dispatch[PF_N_SERVICES]; /* by pf_service; NULL: not served */
    pf_codec *codec[PF_N_SERVICES];
    pf_traffic *traffic[PF_N_SERVICES];    /* NULL: not counted */
    pf_invalid_log invalid[PF_N_SERVICES]; /* of either peer, since the server began */
    pf_status failed;                      /* of a peer as a whole */
    bool is_behind;                        /* some work is left for later: other clients have sent messages meanwhile */
    bool shut;
    const volatile bool *stop_flag; /* the stop flag of pf_server_run; or NULL */
    uint64_t until_ns;              /* when open sequences are cancelled; 0: it is not stopping */

    pf_encoded_info info[PF_N_SERVICES][2]; /* without and with hashes of the vocabulary */

    atomic_bool stop, drained;

    pthread_mutex_t lock;
    pf_codec *prepared_codec;    /* for verdicts that are answered on arrival */
    pf_call *ready, **ready_end; /* streams with work, in order of arrival */
    pf_call *in_round;           /* streams with messages in this round, or since is_behind */
    pf_call *oldest, *youngest;  /* of all calls */
    pf_health health;
    uint64_t n_clients;                /* calls ever made */
    int32_t n_calls;                   /* all that are not freed, the pending one too */
    int32_t n_open, n_streams;         /* that have a slot, and the streams among them */
    size_t queued_bytes, unread_bytes; /* of all calls: waiting to be computed, and to be read */
};

/* Whether an answer may follow: a message is queued, or being computed. */
static inline bool pf_call_is_waiting(const pf_call *c)
{
    return c->in_count > 0 || c->awaits_answer;
}

/* ---- server_calls.c -------------------------------------------------------------------------------------------------- */

static inline grpc_op pf_call_metadata_op(void)
{
    return (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
}

static inline grpc_op pf_call_message_op(grpc_byte_buffer *message)
{
    return (grpc_op){ .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message };
}

bool pf_call_post(pf_call *c, const grpc_op *ops, size_t n,
                  pf_event_kind kind);   /* false: rejected by gRPC, no event follows */
void pf_call_read(pf_call *c);           /* the next message */
bool pf_call_has_room(const pf_call *c); /* whether its queue takes another message */
void pf_call_send(pf_call *c,
                  grpc_byte_buffer *message); /* now, or after the message being written; takes the message */
void pf_call_written(pf_call *c);             /* the message being written has been sent, or the client is gone */
bool pf_call_write_on(pf_call *c); /* writes the next queued message, or the status that is set; false: neither */
void pf_call_end(pf_call *c, grpc_status_code code, const char *text); /* once nothing is being written */
void pf_call_reply(pf_call *c, const uint8_t *bytes, size_t n_bytes);  /* one message, and OK */
void pf_call_link(pf_server *server, pf_call *c);                      /* into the list of all */
void pf_call_make_ready(pf_call *c);                                   /* queue it for the computing thread */

/* Where nothing refers to it any more it is removed from every list, and the caller ends it with pf_call_free. False:
 * not yet. */
bool pf_call_retire(pf_call *c);
void pf_call_free(pf_call *c);              /* without the lock */
void pf_server_send_heartbeats(void *user); /* without the lock; also from the poller */

/* ---- server_prepared.c ----------------------------------------------------------------------------------------------- */

/* Sends the proposals for those verdicts of a message that are prepared. */
void pf_call_answer_prepared(pf_call *c, grpc_byte_buffer *message, size_t n_bytes);
PF_MUST_USE pf_status pf_server_prepare(pf_server *server, pf_service service, int32_t n_ids); /* at its start */

/* ---- server_call_limits.c ------------------------------------------------------------------------------------------------- */

const char *pf_call_admit(pf_call *c);             /* takes a slot; NULL: it has one, else why there is none */
void pf_call_release_slot(pf_call *c);             /* frees its slot for another call */
void pf_call_note_sequences(pf_call *c, bool any); /* whether a stream has open sequences */
void pf_call_reject(pf_call *c, grpc_status_code code,
                    const char *text); /* cancels it at once, whatever is being written */

/* ---- server_health.c ------------------------------------------------------------------------------------------------- */

void pf_call_answer_health(pf_call *c, const uint8_t *bytes, size_t n_bytes);
void pf_call_send_health(pf_call *c);                           /* to a watch, where it has changed */
void pf_server_set_health(pf_server *server, pf_health health); /* without the lock; sends it to all watches */

/* ---- server_events.c, without the lock ------------------------------------------------------------------------------- */

void pf_server_accept_call(pf_server *server); /* requests the next call, which begins in on_new and requests another */
void pf_server_on_event(void *user, void *event_tag, bool success); /* the poller's handler; user: the server */

/* ---- server_compute.c, on the computing thread, without the lock ------------------------------------------------------ */

/* Submits queued messages and sends the answers. Whether there was any work. *error: why server->failed is set. */
bool pf_server_compute(pf_server *server, pf_error *error);

/* A pass of what streams may ask for next. Whether there was one. */
bool pf_server_work_ahead(pf_server *server);

/* A pf_dispatch_send: the user is the server, the stream a call. */
void pf_server_send_batch(void *user, void *stream, const pf_batch *batch);
bool pf_server_is_stopping(const pf_server *server);

/* Whether the grace period is over, so nothing is computed to its end: the prefill of a long prompt may take minutes. */
bool pf_server_is_overdue(pf_server *server);

#endif
