#include "rpc/server_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { QUEUED_MESSAGES = 16 }; /* largest messages that all streams may have waiting together */

/* ---- calls ----------------------------------------------------------------------------------------------------- */

static void say(const pf_server *server, const char *sentence)
{
    if (server->config.log) server->config.log(server->config.log_user, sentence);
}

static bool post(pf_call *c, const grpc_op *ops, size_t n, pf_event_kind kind)
{
    c->pending++;
    if (grpc_call_start_batch(c->grpc, ops, n, &c->tags[kind], NULL) == GRPC_CALL_OK) return true;
    c->pending--;
    return false;
}

void pf_call_read(pf_call *c)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->received };
    c->reading = post(c, &op, 1, PF_EV_READ);
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
static void send_status(pf_call *c, grpc_byte_buffer *message)
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
    (void)post(c, ops, n, PF_EV_STATUS); /* refused: the call is over, and PF_EV_OVER comes anyway */
    grpc_slice_unref(text);
}

void pf_call_end(pf_call *c, grpc_status_code code, const char *text)
{
    if (c->ending || c->ended) return;
    c->ending = true;
    c->end_code = code;
    snprintf(c->end_text, sizeof c->end_text, "%s", text);
    if (!c->writing) send_status(c, NULL);
}

static void reply_and_end(pf_call *c, const uint8_t *bytes, size_t n_bytes)
{
    grpc_byte_buffer *message = pf_grpc_copy(bytes, n_bytes);
    c->ending = true;
    c->end_code = GRPC_STATUS_OK;
    send_status(c, message);
    grpc_byte_buffer_destroy(message);
}

/* It is over, or goes: another may have its place. */
static void leave_place(pf_call *c)
{
    if (!c->has_place) return;
    c->has_place = false;
    c->server->n_open--;
    if (c->role == PF_ROLE_STREAM) c->server->n_streams--;
}

/* Ends a call at once: unlike a status, which waits for its turn to be written, that needs nothing of a client who reads
 * nothing. */
static void turn_away(pf_call *c, grpc_status_code code, const char *text)
{
    leave_place(c);
    c->ending = c->ended = true;
    (void)grpc_call_cancel_with_status(c->grpc, code, text, NULL);
}

static void start_write(pf_call *c, grpc_byte_buffer *message)
{
    const grpc_op op = message_op(message);
    c->writing = post(c, &op, 1, PF_EV_WRITE);
    grpc_byte_buffer_destroy(message); /* core has its own reference */
}

/* Takes the message. */
void pf_call_send(pf_call *c, grpc_byte_buffer *message)
{
    if (c->ending || c->ended) {
        grpc_byte_buffer_destroy(message);
    } else if (!c->writing) {
        start_write(c, message);
    } else if (c->out_count < PF_N_OUTBOUND) {
        c->out[(c->out_head + c->out_count++) % PF_N_OUTBOUND] = message;
    } else {
        grpc_byte_buffer_destroy(message);
        turn_away(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "the stream is not read");
    }
}

void pf_call_make_ready(pf_call *c)
{
    pf_server *server = c->server;
    if (c->is_ready || !c->held) return;
    c->is_ready = true;
    c->next_ready = NULL;
    *server->ready_end = c;
    server->ready_end = &c->next_ready;
    pf_poller_notify(&server->poller);
}

static void link_call(pf_server *server, pf_call *c)
{
    c->previous = server->youngest;
    *(c->previous ? &c->previous->next : &server->oldest) = c;
    server->youngest = c;
}

static void unlink_call(pf_server *server, const pf_call *c)
{
    *(c->previous ? &c->previous->next : &server->oldest) = c->next;
    *(c->next ? &c->next->previous : &server->youngest) = c->previous;
}

/* Whether nothing refers to the call any more; it is then out of every list, and pf_call_free may end it. */
bool pf_call_is_done(pf_call *c)
{
    if (c->pending > 0 || c->held || c->is_ready) return false;
    pf_server *server = c->server;
    if (c->grpc) unlink_call(server, c);
    leave_place(c);
    server->n_calls--;
    server->queued_bytes -= c->in_bytes;
    return true;
}

void pf_call_free(pf_call *c)
{
    for (; c->in_count; c->in_count--, c->in_head = (c->in_head + 1) % PF_N_INBOUND)
        grpc_byte_buffer_destroy(c->in[c->in_head].bytes);
    for (; c->out_count; c->out_count--, c->out_head = (c->out_head + 1) % PF_N_OUTBOUND)
        grpc_byte_buffer_destroy(c->out[c->out_head]);
    if (c->received) grpc_byte_buffer_destroy(c->received);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    if (c->grpc) {
        pf_listener_leave(c->server->listener, c->connection);
        grpc_call_unref(c->grpc);
    }
    free(c);
}

/* ---- signs of life --------------------------------------------------------------------------------------------- */

/* Whether an answer may be under way: something of the stream is in line, or being computed. */
static bool is_waiting(const pf_call *c)
{
    return c->in_count > 0 || c->is_absorbed;
}

static void give_sign(pf_call *c, uint64_t now_ns)
{
    if (!is_waiting(c) || c->writing || now_ns < c->quiet_ns + c->server->config.sign_ns) return;
    c->quiet_ns = now_ns;
    pf_call_send(c, pf_grpc_copy((const uint8_t *)"", 0)); /* an empty batch */
}

void pf_server_give_signs(void *user)
{
    pf_server *server = user;
    const uint64_t now_ns = pf_now_ns();
    pthread_mutex_lock(&server->lock);
    for (pf_call *c = server->absorbed; c; c = c->next_absorbed) give_sign(c, now_ns);
    for (pf_call *c = server->ready; c; c = c->next_ready) give_sign(c, now_ns);
    pthread_mutex_unlock(&server->lock);
}

/* ---- health ---------------------------------------------------------------------------------------------------- */

static void tell_watcher(pf_call *c)
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
    c->writing = post(c, ops, n_ops, PF_EV_WRITE);
    grpc_byte_buffer_destroy(message);
}

void pf_server_set_health(pf_server *server, pf_health health)
{
    pthread_mutex_lock(&server->lock);
    server->health = health;
    for (pf_call *c = server->oldest; c; c = c->next)
        if (c->role == PF_ROLE_WATCH && c->watches) tell_watcher(c);
    pthread_mutex_unlock(&server->lock);
}

static bool is_served(const pf_server *server, const char *service)
{
    return *service == '\0' || (server->dispatch[PF_SERVICE_DRAFTER] && !strcmp(service, "pilotfish.v1.Drafter")) ||
           (server->dispatch[PF_SERVICE_VERIFIER] && !strcmp(service, "pilotfish.v1.Verifier"));
}

static void on_health_request(pf_call *c, const uint8_t *bytes, size_t n_bytes)
{
    pf_server *server = c->server;
    char service[PF_MAX_SERVICE_BYTES];
    const pf_status status = pf_health_decode_request(bytes, n_bytes, service);
    if (status == PF_FORMAT) {
        pf_call_end(c, GRPC_STATUS_INVALID_ARGUMENT, "not a HealthCheckRequest");
        return;
    }
    const bool known = status == PF_OK && is_served(server, service);
    if (c->role == PF_ROLE_WATCH) {
        c->told = known ? PF_HEALTH_UNKNOWN : PF_HEALTH_SERVICE_UNKNOWN;
        c->watches = true;
        tell_watcher(c);
    } else if (!known) {
        pf_call_end(c, GRPC_STATUS_NOT_FOUND, "no such service here");
    } else {
        uint8_t out[PF_MAX_HEALTH_BYTES];
        size_t n = 0;
        if (pf_health_encode_response(server->health, out, sizeof out, &n) == PF_OK) reply_and_end(c, out, n);
    }
}

/* ---- events, on whichever thread polls ------------------------------------------------------------------------- */

/* Asks for the next call; it ends up in on_new. */
void pf_server_accept_call(pf_server *server)
{
    pf_call *c = calloc(1, sizeof *c);
    if (!c) {
        say(server, "out of memory: no more calls are taken");
        return;
    }
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    pthread_mutex_lock(&server->lock); /* whoever polls when it comes may be another thread */
    c->server = server;
    for (int i = 0; i < PF_N_EVENTS; i++) c->tags[i] = (pf_call_tag){ c, (pf_event_kind)i };
    c->pending = 1;
    server->n_calls++;
    pthread_mutex_unlock(&server->lock);
    if (grpc_server_request_call(server->grpc, &c->grpc, &c->details, &c->metadata, server->poller.cq,
                                 server->poller.cq, &c->tags[PF_EV_NEW]) == GRPC_CALL_OK)
        return;
    pthread_mutex_lock(&server->lock);
    c->pending = 0; /* shutting down */
    (void)pf_call_is_done(c);
    pthread_mutex_unlock(&server->lock);
    pf_call_free(c);
}

static void recognise(pf_call *c)
{
    static const struct {
        const char *method;
        pf_call_role role;
        pf_service service;
    } methods[] = {
        { PF_RPC_DRAFTER "Draft", PF_ROLE_STREAM, PF_SERVICE_DRAFTER },
        { PF_RPC_DRAFTER "GetModelInfo", PF_ROLE_INFO, PF_SERVICE_DRAFTER },
        { PF_RPC_VERIFIER "Verify", PF_ROLE_STREAM, PF_SERVICE_VERIFIER },
        { PF_RPC_VERIFIER "GetModelInfo", PF_ROLE_INFO, PF_SERVICE_VERIFIER },
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (!pf_grpc_slice_is(c->details.method, methods[i].method) || !c->server->dispatch[methods[i].service])
            continue;
        c->role = methods[i].role;
        c->service = methods[i].service;
        return;
    }
    if (pf_grpc_slice_is(c->details.method, "/grpc.health.v1.Health/Check")) c->role = PF_ROLE_CHECK;
    if (pf_grpc_slice_is(c->details.method, "/grpc.health.v1.Health/Watch")) c->role = PF_ROLE_WATCH;
}

/* ---- places: few enough calls, and nobody kept out by one who wants nothing -------------------------------------- */

void pf_call_tell_sequences(pf_call *c, bool any)
{
    if (c->has_sequences && !any) c->idle_ns = pf_now_ns();
    c->has_sequences = any;
}

/* Whether it waits for nothing of ours. A question is answered as soon as it is said, so any that is there has not been
 * said, is not read, or watches. */
static bool is_idle(const pf_call *c)
{
    if (c->role != PF_ROLE_STREAM || c->ending || c->ended) return true;
    return !c->has_sequences && !is_waiting(c);
}

static pf_call *longest_idle(const pf_server *server, bool stream)
{
    pf_call *idle = NULL;
    for (pf_call *c = server->oldest; c; c = c->next)
        if ((c->role == PF_ROLE_STREAM) == stream && c->has_place && is_idle(c) &&
            (!idle || c->idle_ns < idle->idle_ns))
            idle = c;
    return idle;
}

/* Frees a place of a stream, or of any other call. */
static bool make_way(pf_server *server, bool stream)
{
    pf_call *c = longest_idle(server, stream);
    if (!c) return false;
    turn_away(c, GRPC_STATUS_RESOURCE_EXHAUSTED,
              stream ? "another stream needs the place: this one has no sequence open"
                     : "another call needs the place");
    return true;
}

/* NULL: the call has a place now, else why there is none. Watches take what is free, and no more. */
static const char *take_place(pf_call *c)
{
    pf_server *server = c->server;
    const int32_t most = pf_server_max_calls(&server->config);
    const bool stream = c->role == PF_ROLE_STREAM;
    if (server->n_calls - server->n_open > most) return "too many calls are ending; try again";
    if (stream && server->n_streams >= server->config.max_streams && !make_way(server, true))
        return "as many streams are open as are taken, all of them with sequences";
    if (server->n_open >= most && (c->role == PF_ROLE_WATCH || !make_way(server, false)))
        return "as many calls are open as are taken";
    c->has_place = true;
    server->n_open++;
    if (stream) server->n_streams++;
    return NULL;
}

static void begin_stream(pf_call *c)
{
    c->opened = true;
    const grpc_op open = metadata_op(); /* at once: the client learns that the stream stands */
    (void)post(c, &open, 1, PF_EV_METADATA);
    pf_call_read(c);
}

static void on_new(pf_call *c)
{
    pf_server *server = c->server;
    const grpc_op over = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &c->cancelled };
    (void)post(c, &over, 1, PF_EV_OVER);
    c->connection = pf_listener_enter(server->listener, c->grpc);
    c->idle_ns = pf_now_ns();
    recognise(c);
    link_call(server, c);
    const char *no_place = c->role == PF_ROLE_UNKNOWN ? NULL : take_place(c);
    if (no_place)
        turn_away(c, GRPC_STATUS_RESOURCE_EXHAUSTED, no_place);
    else if (c->role == PF_ROLE_UNKNOWN)
        turn_away(c, GRPC_STATUS_UNIMPLEMENTED, "no such method is served here");
    else if (c->role == PF_ROLE_STREAM)
        begin_stream(c);
    else
        pf_call_read(c);
}

/* Whether a stream may be read further. */
bool pf_call_has_room(const pf_call *c)
{
    return c->in_count < PF_N_INBOUND && c->in_bytes < c->server->config.max_message_bytes;
}

/* Takes the message. The next is asked for once this one is answered, by the computing thread: core then tells the client
 * at once how much room there is, in a packet of its own, and the answer comes first. While that thread is busy, what
 * comes is gathered for it. */
static void on_stream_message(pf_call *c, grpc_byte_buffer *message)
{
    pf_server *server = c->server;
    const size_t n_bytes = grpc_byte_buffer_length(message);
    if (server->queued_bytes + n_bytes > QUEUED_MESSAGES * server->config.max_message_bytes) {
        grpc_byte_buffer_destroy(message);
        pf_call_end(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "too many bytes wait to be computed; try later");
        return;
    }
    const uint64_t now_ns = pf_now_ns();
    if (!is_waiting(c)) c->quiet_ns = now_ns;
    c->held = true;
    c->in[(c->in_head + c->in_count++) % PF_N_INBOUND] = (pf_inbound){ message, n_bytes, now_ns };
    c->in_bytes += n_bytes;
    server->queued_bytes += n_bytes;
    pf_call_make_ready(c);
    if (!pf_poller_front_polls(&server->poller) && pf_call_has_room(c)) pf_call_read(c);
}

static void on_unary_message(pf_call *c, grpc_byte_buffer *message)
{
    grpc_slice hold;
    pf_error error;
    if (pf_grpc_bytes(message, &hold, &error) != PF_OK) {
        pf_call_end(c, GRPC_STATUS_INVALID_ARGUMENT, error.text);
        return;
    }
    const uint8_t *bytes = GRPC_SLICE_START_PTR(hold);
    const size_t n_bytes = GRPC_SLICE_LENGTH(hold);
    uint32_t version; /* the caller sees ours, and decides */
    if (c->role != PF_ROLE_INFO)
        on_health_request(c, bytes, n_bytes);
    else if (pf_codec_decode_info_request(bytes, n_bytes, &version, &error) != PF_OK)
        pf_call_end(c, GRPC_STATUS_INVALID_ARGUMENT, error.text);
    else
        reply_and_end(c, c->server->info[c->service], c->server->info_bytes[c->service]);
    grpc_slice_unref(hold);
}

static void on_read(pf_call *c, bool success)
{
    /* Taken before anything else: once the next read is started the pointer is core's again, and may be filled. */
    grpc_byte_buffer *message = c->received;
    c->received = NULL;
    c->reading = false;
    const bool live = success && message && !c->ending && !c->ended;
    if (live && c->role == PF_ROLE_STREAM) {
        on_stream_message(c, message);
        return;
    }
    if (live) {
        on_unary_message(c, message);
    } else if (c->role == PF_ROLE_STREAM && c->held) {
        c->half_closed = true;
        pf_call_make_ready(c);
    } else if (c->role == PF_ROLE_STREAM) {
        pf_call_end(c, GRPC_STATUS_OK, ""); /* it has said nothing */
    } else {
        pf_call_end(c, GRPC_STATUS_INVALID_ARGUMENT, "a request without a message");
    }
    if (message) grpc_byte_buffer_destroy(message);
}

static void on_written(pf_call *c, bool success)
{
    c->writing = false;
    if (c->ended) return;
    if (!success) { /* the stream is breaking: PF_EV_OVER follows */
        c->ended = true;
    } else if (c->out_count) {
        grpc_byte_buffer *next = c->out[c->out_head];
        c->out_head = (c->out_head + 1) % PF_N_OUTBOUND;
        c->out_count--;
        start_write(c, next);
    } else if (c->ending) {
        send_status(c, NULL);
    } else if (c->role == PF_ROLE_WATCH) {
        tell_watcher(c);
    }
}

static void on_call_event(pf_call *c, pf_event_kind kind, bool success)
{
    c->pending--;
    switch (kind) {
    case PF_EV_NEW:
        if (success) on_new(c);
        break;
    case PF_EV_READ: on_read(c, success); break;
    case PF_EV_WRITE: on_written(c, success); break;
    case PF_EV_OVER:
        c->ended = true;
        leave_place(c);
        pf_call_make_ready(c); /* the computing thread lets go of it */
        break;
    case PF_EV_METADATA:
    case PF_EV_STATUS:
    default: break;
    }
}

void pf_server_on_event(void *user, void *event_tag, bool success)
{
    pf_server *server = user;
    const pf_call_tag *t = event_tag;
    pthread_mutex_lock(&server->lock); /* before the tag is read: see pf_server_accept_call */
    pf_call *c = t->of;
    const bool another = c && t->kind == PF_EV_NEW && success;
    if (c) on_call_event(c, t->kind, success);
    const bool done = c && pf_call_is_done(c);
    pthread_mutex_unlock(&server->lock);

    if (another) pf_server_accept_call(server);
    if (done) pf_call_free(c);
    if (!c) atomic_store(&server->drained, true);
    if (!c || done) pf_poller_notify(&server->poller); /* who shuts down waits for the last of them */
}
