#include "rpc/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "proto/health.h"
#include "rpc/address.h"
#include "rpc/dispatch.h"
#include "rpc/grpc_util.h"
#include "rpc/poller.h"

enum {
    DEFAULT_STREAMS = 256,
    UNARY_CALLS = 64,      /* health and info at once, watches included */
    N_INBOUND = 16,        /* batches of a stream that wait for the computing thread; then reading stops */
    N_OUTBOUND = 64,       /* batches that a stream has not read; then it is cancelled */
    QUEUED_MESSAGES = 16,  /* largest messages that all streams may have waiting together */
    ROUND_BATCHES = 64,    /* batches submitted before the peer is asked for answers */
    AWAY_NS = 1000 * 1000, /* of the computing thread, until the back of the poller polls */
    END_TEXT_BYTES = 512,
};

/* What a completion event is about; a call has at most one of each under way. */
typedef enum { EV_NEW, EV_READ, EV_METADATA, EV_WRITE, EV_STATUS, EV_OVER, N_EVENTS } event_kind;

typedef enum { ROLE_UNKNOWN, ROLE_STREAM, ROLE_INFO, ROLE_CHECK, ROLE_WATCH } call_role;

typedef struct call call;

typedef struct {
    call *of; /* NULL: the server's shutdown */
    event_kind kind;
} tag;

typedef struct {
    grpc_byte_buffer *bytes;
    size_t n_bytes;
    uint64_t arrived_ns;
} inbound;

/* One RPC. Everything but the first block is guarded by the server's lock. */
struct call {
    pf_server *server;
    grpc_call *grpc;
    grpc_call_details details;
    grpc_metadata_array metadata;
    tag tags[N_EVENTS];
    call_role role;
    pf_service service;

    int pending; /* events to come */
    bool held;   /* the computing thread may still look at it */
    bool reading, writing;
    bool opened;      /* initial metadata is on its way */
    bool half_closed; /* the client will send no more */
    bool ending;      /* a status is decided; sent once nothing is being written */
    bool ended;       /* the status is on its way, or nobody is left to read it */
    grpc_status_code end_code;
    char end_text[END_TEXT_BYTES];
    int cancelled;              /* core's */
    grpc_byte_buffer *received; /* core's while reading */

    inbound in[N_INBOUND];
    int32_t in_head, in_count;
    grpc_byte_buffer *out[N_OUTBOUND];
    int32_t out_head, out_count;
    size_t in_bytes;

    bool is_ready, is_finishing;
    call *next_ready, *next_finishing, *next_watch;
    pf_health told; /* to a watcher */
};

struct pf_server {
    pf_server_config config;
    pf_address address;
    char actual[PF_MAX_ADDRESS_BYTES];
    grpc_server *grpc;
    pf_poller poller; /* its front is the computing thread */
    tag shutdown_tag;

    /* The computing thread's alone. */
    pf_dispatch *dispatch[2]; /* by pf_service; NULL: not served */
    pf_codec *codec[2];
    pf_status failed; /* of a peer as a whole */
    call *finishing;
    bool shut;

    uint8_t info[2][PF_MAX_INFO_BYTES];
    size_t info_bytes[2];

    atomic_bool stop, drained;

    pthread_mutex_t lock;
    call *ready, **ready_end; /* streams with work, first come first served */
    call *watchers;
    pf_health health;
    int32_t n_calls, n_streams;
    size_t queued_bytes;
};

/* ---- calls: everything here with the lock held ----------------------------------------------------------------- */

static void say(const pf_server *server, const char *sentence)
{
    if (server->config.log) server->config.log(server->config.log_user, sentence);
}

static bool post(call *c, const grpc_op *ops, size_t n, event_kind kind)
{
    c->pending++;
    if (grpc_call_start_batch(c->grpc, ops, n, &c->tags[kind], NULL) == GRPC_CALL_OK) return true;
    c->pending--;
    return false;
}

static void read_next(call *c)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->received };
    c->reading = post(c, &op, 1, EV_READ);
}

static grpc_op metadata_op(void)
{
    return (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
}

static grpc_op message_op(grpc_byte_buffer *message)
{
    return (grpc_op){ .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message };
}

/* Send the final status, with `message` before it where there is one. */
static void send_status(call *c, grpc_byte_buffer *message)
{
    c->ended = true;
    grpc_op ops[3];
    size_t n = 0;
    if (!c->opened) ops[n++] = metadata_op();
    c->opened = true;
    if (message) ops[n++] = message_op(message);
    grpc_slice text = grpc_slice_from_copied_string(c->end_text);
    ops[n++] = (grpc_op){
        .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
        .data.send_status_from_server = { .status = c->end_code, .status_details = &text },
    };
    (void)post(c, ops, n, EV_STATUS); /* refused: the call is over, and EV_OVER comes anyway */
    grpc_slice_unref(text);
}

static void end_call(call *c, grpc_status_code code, const char *text)
{
    if (c->ending || c->ended) return;
    c->ending = true;
    c->end_code = code;
    snprintf(c->end_text, sizeof c->end_text, "%s", text);
    if (!c->writing) send_status(c, NULL);
}

static void reply_and_end(call *c, const uint8_t *bytes, size_t n_bytes)
{
    grpc_byte_buffer *message = pf_grpc_copy(bytes, n_bytes);
    c->ending = true;
    c->end_code = GRPC_STATUS_OK;
    send_status(c, message);
    grpc_byte_buffer_destroy(message);
}

static void start_write(call *c, grpc_byte_buffer *message)
{
    const grpc_op op = message_op(message);
    c->writing = post(c, &op, 1, EV_WRITE);
    grpc_byte_buffer_destroy(message); /* core has its own reference */
}

/* Takes the message. */
static void write_or_queue(call *c, grpc_byte_buffer *message)
{
    if (c->ending || c->ended) {
        grpc_byte_buffer_destroy(message);
    } else if (!c->writing) {
        start_write(c, message);
    } else if (c->out_count < N_OUTBOUND) {
        c->out[(c->out_head + c->out_count++) % N_OUTBOUND] = message;
    } else {
        grpc_byte_buffer_destroy(message);
        c->ended = true;
        grpc_call_cancel_with_status(c->grpc, GRPC_STATUS_RESOURCE_EXHAUSTED, "the stream is not read", NULL);
    }
}

static void make_ready(call *c)
{
    pf_server *server = c->server;
    if (c->is_ready || !c->held) return;
    c->is_ready = true;
    c->next_ready = NULL;
    *server->ready_end = c;
    server->ready_end = &c->next_ready;
    pf_poller_notify(&server->poller);
}

static void unlink_watcher(pf_server *server, const call *c)
{
    for (call **w = &server->watchers; *w; w = &(*w)->next_watch) {
        if (*w != c) continue;
        *w = c->next_watch;
        return;
    }
}

/* Whether nothing refers to the call any more; it is then out of every list, and free_call may end it. */
static bool is_done(call *c)
{
    if (c->pending > 0 || c->held || c->is_ready) return false;
    pf_server *server = c->server;
    if (c->role == ROLE_WATCH) unlink_watcher(server, c);
    if (c->role == ROLE_STREAM) server->n_streams--;
    server->n_calls--;
    server->queued_bytes -= c->in_bytes;
    return true;
}

static void free_call(call *c)
{
    for (; c->in_count; c->in_count--, c->in_head = (c->in_head + 1) % N_INBOUND)
        grpc_byte_buffer_destroy(c->in[c->in_head].bytes);
    for (; c->out_count; c->out_count--, c->out_head = (c->out_head + 1) % N_OUTBOUND)
        grpc_byte_buffer_destroy(c->out[c->out_head]);
    if (c->received) grpc_byte_buffer_destroy(c->received);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    if (c->grpc) grpc_call_unref(c->grpc);
    free(c);
}

/* ---- health ---------------------------------------------------------------------------------------------------- */

static void tell_watcher(call *c)
{
    const pf_health health = c->told == PF_HEALTH_SERVICE_UNKNOWN ? c->told : c->server->health;
    if (c->writing || c->ending || c->ended || (c->opened && c->told == health)) return;
    uint8_t bytes[PF_MAX_HEALTH_BYTES];
    size_t n = 0;
    if (pf_health_encode_response(health, bytes, sizeof bytes, &n) != PF_OK) return;
    c->told = health;
    grpc_byte_buffer *message = pf_grpc_copy(bytes, n);
    grpc_op ops[2];
    size_t n_ops = 0;
    if (!c->opened) ops[n_ops++] = metadata_op();
    c->opened = true;
    ops[n_ops++] = message_op(message);
    c->writing = post(c, ops, n_ops, EV_WRITE);
    grpc_byte_buffer_destroy(message);
}

static void set_health(pf_server *server, pf_health health)
{
    pthread_mutex_lock(&server->lock);
    server->health = health;
    for (call *c = server->watchers; c; c = c->next_watch) tell_watcher(c);
    pthread_mutex_unlock(&server->lock);
}

static bool is_served(const pf_server *server, const char *service)
{
    return *service == '\0' || (server->dispatch[PF_SERVICE_DRAFTER] && !strcmp(service, "pilotfish.v1.Drafter")) ||
           (server->dispatch[PF_SERVICE_VERIFIER] && !strcmp(service, "pilotfish.v1.Verifier"));
}

static void on_health_request(call *c, const uint8_t *bytes, size_t n_bytes)
{
    pf_server *server = c->server;
    char service[PF_MAX_SERVICE_BYTES];
    const pf_status status = pf_health_decode_request(bytes, n_bytes, service);
    if (status == PF_FORMAT) {
        end_call(c, GRPC_STATUS_INVALID_ARGUMENT, "not a HealthCheckRequest");
        return;
    }
    const bool known = status == PF_OK && is_served(server, service);
    if (c->role == ROLE_WATCH) {
        c->told = known ? PF_HEALTH_UNKNOWN : PF_HEALTH_SERVICE_UNKNOWN;
        c->next_watch = server->watchers;
        server->watchers = c;
        tell_watcher(c);
    } else if (!known) {
        end_call(c, GRPC_STATUS_NOT_FOUND, "no such service here");
    } else {
        uint8_t out[PF_MAX_HEALTH_BYTES];
        size_t n = 0;
        if (pf_health_encode_response(server->health, out, sizeof out, &n) == PF_OK) reply_and_end(c, out, n);
    }
}

/* ---- events, on whichever thread polls ------------------------------------------------------------------------- */

/* Asks for the next call; it ends up in on_new. */
static void request_call(pf_server *server)
{
    call *c = calloc(1, sizeof *c);
    if (!c) {
        say(server, "out of memory: no more calls are taken");
        return;
    }
    c->server = server;
    for (int i = 0; i < N_EVENTS; i++) c->tags[i] = (tag){ c, (event_kind)i };
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    pthread_mutex_lock(&server->lock);
    server->n_calls++;
    pthread_mutex_unlock(&server->lock);
    c->pending = 1;
    if (grpc_server_request_call(server->grpc, &c->grpc, &c->details, &c->metadata, server->poller.cq,
                                 server->poller.cq, &c->tags[EV_NEW]) == GRPC_CALL_OK)
        return;
    c->pending = 0; /* shutting down */
    pthread_mutex_lock(&server->lock);
    (void)is_done(c);
    pthread_mutex_unlock(&server->lock);
    free_call(c);
}

static void recognise(call *c)
{
    static const struct {
        const char *method;
        call_role role;
        pf_service service;
    } methods[] = {
        { PF_RPC_DRAFTER "Draft", ROLE_STREAM, PF_SERVICE_DRAFTER },
        { PF_RPC_DRAFTER "GetModelInfo", ROLE_INFO, PF_SERVICE_DRAFTER },
        { PF_RPC_VERIFIER "Verify", ROLE_STREAM, PF_SERVICE_VERIFIER },
        { PF_RPC_VERIFIER "GetModelInfo", ROLE_INFO, PF_SERVICE_VERIFIER },
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (!pf_grpc_slice_is(c->details.method, methods[i].method) || !c->server->dispatch[methods[i].service])
            continue;
        c->role = methods[i].role;
        c->service = methods[i].service;
        return;
    }
    if (pf_grpc_slice_is(c->details.method, "/grpc.health.v1.Health/Check")) c->role = ROLE_CHECK;
    if (pf_grpc_slice_is(c->details.method, "/grpc.health.v1.Health/Watch")) c->role = ROLE_WATCH;
}

static void on_new(call *c)
{
    pf_server *server = c->server;
    const grpc_op over = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &c->cancelled };
    (void)post(c, &over, 1, EV_OVER);
    recognise(c);
    if (c->role == ROLE_UNKNOWN) {
        end_call(c, GRPC_STATUS_UNIMPLEMENTED, "no such method is served here");
    } else if (c->role == ROLE_STREAM && server->n_streams >= server->config.max_streams) {
        c->role = ROLE_UNKNOWN;
        end_call(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "as many streams are open as are taken");
    } else if (server->n_calls > server->config.max_streams + UNARY_CALLS) {
        c->role = ROLE_UNKNOWN;
        end_call(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "as many calls are open as are taken");
    } else if (c->role == ROLE_STREAM) {
        server->n_streams++;
        c->held = true;
        c->opened = true;
        const grpc_op open = metadata_op(); /* at once: the client learns that the stream stands */
        (void)post(c, &open, 1, EV_METADATA);
        read_next(c);
    } else {
        read_next(c);
    }
}

/* Whether a stream may be read further: its own queue and the common budget have room. */
static bool has_room(const call *c)
{
    return c->in_count < N_INBOUND && c->in_bytes < c->server->config.max_message_bytes;
}

/* Takes the message. */
static void on_stream_message(call *c, grpc_byte_buffer *message)
{
    pf_server *server = c->server;
    const size_t n_bytes = grpc_byte_buffer_length(message);
    if (server->queued_bytes + n_bytes > QUEUED_MESSAGES * server->config.max_message_bytes) {
        grpc_byte_buffer_destroy(message);
        end_call(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "too many bytes wait to be computed; try later");
        return;
    }
    c->in[(c->in_head + c->in_count++) % N_INBOUND] = (inbound){ message, n_bytes, pf_now_ns() };
    c->in_bytes += n_bytes;
    server->queued_bytes += n_bytes;
    make_ready(c);
    if (has_room(c)) read_next(c);
}

static void on_unary_message(call *c, grpc_byte_buffer *message)
{
    grpc_slice hold;
    pf_error error;
    if (pf_grpc_bytes(message, &hold, &error) != PF_OK) {
        end_call(c, GRPC_STATUS_INVALID_ARGUMENT, error.text);
        return;
    }
    const uint8_t *bytes = GRPC_SLICE_START_PTR(hold);
    const size_t n_bytes = GRPC_SLICE_LENGTH(hold);
    uint32_t version; /* the caller sees ours, and decides */
    if (c->role != ROLE_INFO)
        on_health_request(c, bytes, n_bytes);
    else if (pf_codec_decode_info_request(bytes, n_bytes, &version, &error) != PF_OK)
        end_call(c, GRPC_STATUS_INVALID_ARGUMENT, error.text);
    else
        reply_and_end(c, c->server->info[c->service], c->server->info_bytes[c->service]);
    grpc_slice_unref(hold);
}

static void on_read(call *c, bool success)
{
    /* Taken before anything else: once the next read is started the pointer is core's again, and may be filled. */
    grpc_byte_buffer *message = c->received;
    c->received = NULL;
    c->reading = false;
    const bool live = success && message && !c->ending && !c->ended;
    if (live && c->role == ROLE_STREAM) {
        on_stream_message(c, message);
        return;
    }
    if (live) {
        on_unary_message(c, message);
    } else if (c->role == ROLE_STREAM) {
        c->half_closed = true;
        make_ready(c);
    } else {
        end_call(c, GRPC_STATUS_INVALID_ARGUMENT, "a request without a message");
    }
    if (message) grpc_byte_buffer_destroy(message);
}

static void on_written(call *c, bool success)
{
    c->writing = false;
    if (c->ended) return;
    if (!success) { /* the stream is breaking: EV_OVER follows */
        c->ended = true;
    } else if (c->out_count) {
        grpc_byte_buffer *next = c->out[c->out_head];
        c->out_head = (c->out_head + 1) % N_OUTBOUND;
        c->out_count--;
        start_write(c, next);
    } else if (c->ending) {
        send_status(c, NULL);
    } else if (c->role == ROLE_WATCH) {
        tell_watcher(c);
    }
}

static void on_call_event(call *c, event_kind kind, bool success)
{
    pf_server *server = c->server;
    if (kind == EV_NEW && success) request_call(server);
    pthread_mutex_lock(&server->lock);
    c->pending--;
    switch (kind) {
    case EV_NEW:
        if (success) on_new(c);
        break;
    case EV_READ: on_read(c, success); break;
    case EV_WRITE: on_written(c, success); break;
    case EV_OVER:
        c->ended = true;
        make_ready(c); /* the computing thread lets go of it */
        break;
    case EV_METADATA:
    case EV_STATUS:
    default: break;
    }
    const bool done = is_done(c);
    pthread_mutex_unlock(&server->lock);
    if (done) free_call(c);
}

static void on_event(void *user, void *event_tag, bool success)
{
    pf_server *server = user;
    const tag *t = event_tag;
    if (t->of) {
        on_call_event(t->of, t->kind, success);
    } else {
        atomic_store(&server->drained, true);
        pf_poller_notify(&server->poller);
    }
}

/* ---- computing, on pf_server_run's thread ---------------------------------------------------------------------- */

static call *take_ready(pf_server *server)
{
    pthread_mutex_lock(&server->lock);
    call *c = server->ready;
    if (c) {
        server->ready = c->next_ready;
        if (!server->ready) server->ready_end = &server->ready;
        c->is_ready = false;
    }
    pthread_mutex_unlock(&server->lock);
    return c;
}

/* pf_dispatch_send: the stream is a call. */
static void send_batch(void *user, void *stream, const pf_batch *batch)
{
    pf_server *server = user;
    call *c = stream;
    grpc_byte_buffer *message = pf_grpc_encode(server->codec[c->service], batch);
    pthread_mutex_lock(&server->lock);
    if (message)
        write_or_queue(c, message);
    else
        end_call(c, GRPC_STATUS_INTERNAL, "an answer larger than a message may be");
    pthread_mutex_unlock(&server->lock);
}

static grpc_status_code code_of(pf_status status)
{
    switch (status) {
    case PF_LIMIT:
    case PF_NOMEM: return GRPC_STATUS_RESOURCE_EXHAUSTED;
    case PF_UNAVAILABLE: return GRPC_STATUS_UNAVAILABLE;
    case PF_INTERNAL: return GRPC_STATUS_INTERNAL;
    default: return GRPC_STATUS_INVALID_ARGUMENT;
    }
}

/* Decode and submit one message; the stream alone pays for what is wrong with it. */
static pf_status submit_message(call *c, const inbound *message, pf_error *error)
{
    pf_server *server = c->server;
    grpc_slice hold;
    PF_TRY(pf_grpc_bytes(message->bytes, &hold, error));
    const pf_batch *batch;
    pf_status status = pf_codec_decode_batch(server->codec[c->service], GRPC_SLICE_START_PTR(hold),
                                             GRPC_SLICE_LENGTH(hold), &batch, error);
    if (status == PF_OK)
        status = pf_dispatch_submit(server->dispatch[c->service], c, batch, pf_now_ns() - message->arrived_ns, error);
    grpc_slice_unref(hold);
    return status;
}

/* Let go of a stream that is over. */
static void release(call *c)
{
    pf_server *server = c->server;
    pf_dispatch_end_stream(server->dispatch[c->service], c);
    pthread_mutex_lock(&server->lock);
    c->held = false;
    const bool done = is_done(c);
    pthread_mutex_unlock(&server->lock);
    if (done) free_call(c);
}

/* Its oldest message, when it is to be computed. Whether there was one. */
static bool take_message(call *c, inbound *message)
{
    pf_server *server = c->server;
    if (c->in_count == 0 || c->ending || c->ended) return false;
    *message = c->in[c->in_head];
    c->in_head = (c->in_head + 1) % N_INBOUND;
    c->in_count--;
    c->in_bytes -= message->n_bytes;
    server->queued_bytes -= message->n_bytes;
    if (c->in_count || c->half_closed) make_ready(c);
    if (!c->reading && !c->half_closed && has_room(c)) read_next(c);
    return true;
}

/* One message of a stream, or its end. */
static void absorb(call *c)
{
    pf_server *server = c->server;
    inbound message;
    pthread_mutex_lock(&server->lock);
    const bool done = is_done(c); /* let go of while it was in line */
    const bool over = c->held && c->ended && !c->is_finishing;
    const bool taken = !done && !over && take_message(c, &message);
    if (!done && !over && !taken && c->held && c->half_closed && !c->ending && !c->is_finishing) {
        c->is_finishing = true;
        c->next_finishing = server->finishing;
        server->finishing = c;
    }
    pthread_mutex_unlock(&server->lock);

    if (done) free_call(c);
    if (over) release(c);
    if (!taken) return;
    pf_error error;
    const pf_status status = submit_message(c, &message, &error);
    grpc_byte_buffer_destroy(message.bytes);
    if (status == PF_OK) return;
    pthread_mutex_lock(&server->lock);
    end_call(c, code_of(status), error.text);
    pthread_mutex_unlock(&server->lock);
}

/* Streams whose client has said all, and whose answers have been sent, end well. */
static void finish_streams(pf_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (call *c = server->finishing, *next; c; c = next) {
        next = c->next_finishing;
        c->is_finishing = false;
        end_call(c, GRPC_STATUS_OK, "");
        if (c->ended) make_ready(c);
    }
    server->finishing = NULL;
    pthread_mutex_unlock(&server->lock);
}

/* What has come in, and the answers. Whether there was anything. */
static bool compute(pf_server *server, pf_error *error)
{
    int n = 0;
    for (call *c; n < ROUND_BATCHES && (c = take_ready(server)) != NULL; n++) absorb(c);
    if (n == 0) return false;
    for (int service = 0; service < 2; service++) {
        if (!server->dispatch[service] || server->failed != PF_OK) continue;
        server->failed = pf_dispatch_collect(server->dispatch[service], error);
    }
    finish_streams(server);
    return true;
}

/* Until there is work, or a while has passed; without sleeping for a moment after the last. */
static void wait_for_work(pf_server *server, uint64_t last_work_ns)
{
    pf_poller_wait(&server->poller, last_work_ns + server->config.spin_ns, UINT64_MAX);
}

static int32_t open_sequences(const pf_server *server)
{
    int32_t n = 0;
    for (int service = 0; service < 2; service++)
        if (server->dispatch[service]) n += pf_dispatch_open_sequences(server->dispatch[service]);
    return n;
}

static void shut_down(pf_server *server, uint64_t grace_ns)
{
    if (server->shut) return;
    server->shut = true;
    pf_error error;
    set_health(server, PF_HEALTH_NOT_SERVING);
    grpc_server_shutdown_and_notify(server->grpc, server->poller.cq, &server->shutdown_tag);

    const uint64_t until = pf_now_ns() + grace_ns;
    uint64_t worked_ns = 0;
    for (;;) {
        const bool drained = atomic_load(&server->drained); /* before: what came until then is computed */
        if (compute(server, &error)) {
            worked_ns = pf_now_ns();
            continue;
        }
        if (drained) return;
        if (open_sequences(server) == 0 || pf_now_ns() >= until || server->failed != PF_OK)
            grpc_server_cancel_all_calls(server->grpc); /* watches never end by themselves */
        wait_for_work(server, worked_ns);
    }
}

pf_status pf_server_run(pf_server *server, const volatile bool *stop, pf_error *error)
{
    if (server->shut) return pf_fail(error, PF_INVALID, "the server has been stopped");
    set_health(server, PF_HEALTH_SERVING);
    uint64_t worked_ns = pf_now_ns();
    while (!atomic_load(&server->stop) && !(stop && *stop) && server->failed == PF_OK) {
        if (compute(server, error))
            worked_ns = pf_now_ns();
        else
            wait_for_work(server, worked_ns);
    }
    shut_down(server, server->config.grace_ns);
    return server->failed;
}

void pf_server_stop(pf_server *server)
{
    atomic_store(&server->stop, true);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* a smaller limit serves too, only fewer clients */
}

static grpc_server *make_grpc_server(const pf_server_config *config)
{
    const int max_bytes = (int)config->max_message_bytes;
    grpc_arg args[] = {
        pf_grpc_int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, max_bytes),
        pf_grpc_int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, max_bytes),
        pf_grpc_int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, config->max_streams + UNARY_CALLS),
        pf_grpc_int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0), /* two servers on one port would share it silently */
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PF_RPC_KEEPALIVE_MS),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PF_RPC_KEEPALIVE_TIMEOUT_MS),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        pf_grpc_int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PF_RPC_KEEPALIVE_FLOOR_MS),
        pf_grpc_int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        pf_grpc_int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
    };
    const grpc_channel_args all = { .num_args = sizeof args / sizeof *args, .args = args };
    return grpc_server_create(&all, NULL);
}

static pf_status listen_on(pf_server *server, pf_error *error)
{
    const pf_address *address = &server->address;
    if (address->is_unix) PF_TRY(pf_address_claim_unix(address, error));
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    const mode_t mask = umask(0177); /* the socket is 0600 from its first moment */
    const int port = grpc_server_add_http2_port(server->grpc, address->text, credentials);
    umask(mask);
    grpc_server_credentials_release(credentials);
    if (port == 0) return pf_address_explain(address, error);
    if (address->is_unix)
        snprintf(server->actual, sizeof server->actual, "%s", address->text);
    else
        snprintf(server->actual, sizeof server->actual, "%s:%d", address->host, port);
    return PF_OK;
}

static pf_status add_service(pf_server *server, pf_service service, pf_peer *peer, pf_error *error)
{
    if (!peer) return PF_OK;
    pf_model_info info;
    PF_TRY(pf_peer_info(peer, &info, error));
    pf_status status =
        pf_codec_encode_info(&info, server->info[service], sizeof server->info[service], &server->info_bytes[service]);
    if (status != PF_OK) return pf_fail(error, status, "the model's own description cannot be encoded");
    const int32_t wanted = server->config.max_sequences;
    status = pf_codec_create(server->config.max_message_bytes, info.vocab_size, &server->codec[service]);
    if (status == PF_OK)
        status = pf_dispatch_create(service, peer, wanted ? wanted : info.max_sequences, send_batch, server,
                                    &server->dispatch[service]);
    if (status != PF_OK) return pf_fail(error, status, "no room for a server of %d sequences", info.max_sequences);
    return PF_OK;
}

static pf_status start(pf_server *server, pf_error *error)
{
    PF_TRY(add_service(server, PF_SERVICE_DRAFTER, server->config.drafter, error));
    PF_TRY(add_service(server, PF_SERVICE_VERIFIER, server->config.verifier, error));
    raise_file_limit();
    const pf_poller_config polling = { .handle = on_event, .user = server, .away_ns = AWAY_NS };
    if (!pf_poller_start(&server->poller, &polling))
        return pf_fail(error, PF_NOMEM, "the server's thread cannot be started");
    server->grpc = make_grpc_server(&server->config);
    grpc_server_register_completion_queue(server->grpc, server->poller.cq, NULL);
    PF_TRY(listen_on(server, error));
    grpc_server_start(server->grpc);
    request_call(server);
    return PF_OK;
}

static pf_status settle(pf_server_config *config, pf_error *error)
{
    if (!config->drafter && !config->verifier) return pf_fail(error, PF_INVALID, "a server without a peer to serve");
    if (config->max_message_bytes == 0) config->max_message_bytes = PF_RPC_DEFAULT_MESSAGE_BYTES;
    if (config->max_streams == 0) config->max_streams = DEFAULT_STREAMS;
    if (config->spin_ns == 0) config->spin_ns = PF_RPC_DEFAULT_SPIN_NS;
    if (config->grace_ns == 0) config->grace_ns = 1000u * 1000 * 1000;
    if (config->max_message_bytes > PF_MAX_MESSAGE_BYTES || config->max_streams < 0 || config->max_streams > 1 << 20)
        return pf_fail(error, PF_INVALID, "a server of %d streams and messages of %zu bytes", config->max_streams,
                       config->max_message_bytes);
    return PF_OK;
}

/* Ends what `start` made, however far it came. */
static void dismantle(pf_server *server)
{
    if (server->grpc) {
        shut_down(server, 0);
        grpc_server_destroy(server->grpc);
        pf_poller_stop(&server->poller);
    }
    for (int service = 0; service < 2; service++) {
        pf_dispatch_destroy(server->dispatch[service]);
        pf_codec_destroy(server->codec[service]);
    }
    grpc_shutdown_blocking();
    pthread_mutex_destroy(&server->lock);
    free(server);
}

pf_status pf_server_create(const pf_server_config *config, pf_server **out, pf_error *error)
{
    pf_address address;
    PF_TRY(pf_address_parse(config->address, &address, error));
    pf_server_config settled = *config;
    PF_TRY(settle(&settled, error));
    pf_server *server = calloc(1, sizeof *server);
    if (!server) return pf_fail(error, PF_NOMEM, "no memory for a server");
    server->config = settled;
    server->address = address;
    server->config.address = server->address.text;
    server->health = PF_HEALTH_NOT_SERVING;
    server->ready_end = &server->ready;
    server->shutdown_tag = (tag){ NULL, EV_OVER };
    pthread_mutex_init(&server->lock, NULL);
    pf_grpc_begin();
    const pf_status status = start(server, error);
    if (status != PF_OK) {
        dismantle(server);
        return status;
    }
    *out = server;
    return PF_OK;
}

void pf_server_destroy(pf_server *server)
{
    if (server) dismantle(server);
}

const char *pf_server_address(const pf_server *server)
{
    return server->actual;
}
