/* Handles events of the completion queue, on the thread that polls. */
#include "rpc/server/server_internal.h"

#include <stdlib.h>

#include "base/clock.h"

enum {
    MOST_METADATA_BYTES = 16 << 10, /* of a call, */
    FIELD_BYTES = 32,               /* each field so much beside its texts: RFC 9113, section 6.5.2 */
};

/* ---- new calls ----------------------------------------------------------------------------------------------------- */

static void log_sentence(const pf_server *server, const char *sentence)
{
    if (server->config.log) server->config.log(server->config.log_user, sentence);
}

void pf_server_accept_call(pf_server *server)
{
    pf_call *c = calloc(1, sizeof *c);
    if (!c) {
        log_sentence(server, "out of memory: no more calls are taken");
        return;
    }
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    pthread_mutex_lock(&server->lock); /* another thread may poll when it arrives */
    c->server = server;
    for (int i = 0; i < PF_N_EVENTS; i++) c->tags[i] = (pf_call_tag){ c, (pf_event_kind)i };
    c->pending = 1;
    c->client = ++server->n_clients;
    server->n_calls++;
    pthread_mutex_unlock(&server->lock);
    if (grpc_server_request_call(server->grpc, &c->grpc, &c->details, &c->metadata, server->poller.cq,
                                 server->poller.cq, &c->tags[PF_EV_NEW]) == GRPC_CALL_OK)
        return;
    pthread_mutex_lock(&server->lock);
    c->pending = 0; /* shutting down */
    (void)pf_call_retire(c);
    pthread_mutex_unlock(&server->lock);
    pf_call_free(c);
}

static void set_role(pf_call *c)
{
    for (int service = 0; service < PF_N_SERVICES; service++) {
        if (!c->server->dispatch[service]) continue;
        if (pf_grpc_slice_is(c->details.method, pf_services[service].stream_method))
            c->role = PF_CALL_STREAM;
        else if (pf_grpc_slice_is(c->details.method, pf_services[service].info_method))
            c->role = PF_CALL_INFO;
        else
            continue;
        c->service = (pf_service)service;
        return;
    }
    if (pf_grpc_slice_is(c->details.method, "/grpc.health.v1.Health/Check")) c->role = PF_CALL_CHECK;
    if (pf_grpc_slice_is(c->details.method, "/grpc.health.v1.Health/Watch")) c->role = PF_CALL_WATCH;
}

static void begin_stream(pf_call *c)
{
    c->opened = true;
    const grpc_op open = pf_call_metadata_op(); /* at once: tells the client that the stream is open */
    (void)pf_call_post(c, &open, 1, PF_EV_METADATA);
    pf_call_read(c);
}

/* gRPC 1.51 limits each frame of metadata to 8 KiB, and not their sum. */
static bool has_too_much_metadata(const pf_call *c)
{
    size_t n_bytes = c->metadata.count * FIELD_BYTES;
    for (size_t i = 0; i < c->metadata.count; i++)
        n_bytes += GRPC_SLICE_LENGTH(c->metadata.metadata[i].key) + GRPC_SLICE_LENGTH(c->metadata.metadata[i].value);
    return n_bytes > MOST_METADATA_BYTES;
}

/* Disconnects the client too: one that does not read would keep the call and its metadata. */
static void reject_metadata(pf_call *c)
{
    pf_call_reject(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "more metadata than is taken");
    pf_listener_disconnect(c->connection);
}

static void on_new(pf_call *c)
{
    pf_server *server = c->server;
    const grpc_op over = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &c->cancelled };
    (void)pf_call_post(c, &over, 1, PF_EV_OVER);
    c->connection = pf_listener_call_started(server->listener, c->grpc);
    c->idle_ns = pf_now_ns();
    set_role(c);
    pf_call_link(server, c);
    if (has_too_much_metadata(c)) {
        reject_metadata(c);
        return;
    }
    const char *rejection = c->role == PF_CALL_UNKNOWN ? NULL : pf_call_admit(c);
    if (rejection)
        pf_call_reject(c, GRPC_STATUS_RESOURCE_EXHAUSTED, rejection);
    else if (c->role == PF_CALL_UNKNOWN)
        pf_call_reject(c, GRPC_STATUS_UNIMPLEMENTED, "no such method is served here");
    else if (c->role == PF_CALL_STREAM)
        begin_stream(c);
    else
        pf_call_read(c);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Takes the message. The computing thread starts the next read once this message is answered: gRPC sends a
 * flow-control update in a packet of its own at each read, and the answer should come first. While that thread
 * computes, messages are queued here. */
static void on_stream_message(pf_call *c, grpc_byte_buffer *message)
{
    pf_server *server = c->server;
    const size_t n_bytes = grpc_byte_buffer_length(message);
    if (server->queued_bytes + n_bytes > server->room.inbound_bytes / 2) {
        grpc_byte_buffer_destroy(message);
        pf_call_end(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "too many bytes wait to be computed; try later");
        return;
    }
    const uint64_t now_ns = pf_now_ns();
    if (!pf_call_is_waiting(c)) c->waiting_since_ns = now_ns;
    c->held = true;
    c->in[(c->in_head + c->in_count++) % PF_N_INBOUND] = (pf_inbound){ message, n_bytes, now_ns };
    c->in_bytes += n_bytes;
    server->queued_bytes += n_bytes;
    if (c->in_count == 1) pf_call_answer_prepared(c, message, n_bytes);
    pf_call_make_ready(c);
    if (!pf_poller_front_polls(&server->poller) && pf_call_has_room(c)) pf_call_read(c);
}

static void reply_info(pf_call *c, bool with_hashes)
{
    const pf_encoded_info *info = &c->server->info[c->service][with_hashes];
    pf_call_reply(c, info->bytes, info->n_bytes);
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
    pf_info_request request; /* the caller sees our version, and decides */
    if (c->role != PF_CALL_INFO)
        pf_call_answer_health(c, bytes, n_bytes);
    else if (pf_codec_decode_info_request(bytes, n_bytes, &request, &error) != PF_OK)
        pf_call_end(c, GRPC_STATUS_INVALID_ARGUMENT, error.text);
    else
        reply_info(c, request.wants_hashes);
    grpc_slice_unref(hold);
}

static void on_read(pf_call *c, bool success)
{
    /* First: once the next read is started gRPC may write the pointer again. */
    grpc_byte_buffer *message = c->received;
    c->received = NULL;
    c->reading = false;
    if (message) pf_listener_attribute(c->server->listener, c->connection, grpc_byte_buffer_length(message));
    const bool live = success && message && !c->ending && !c->ended;
    if (live && c->role == PF_CALL_STREAM) {
        on_stream_message(c, message);
        return;
    }
    if (live) {
        on_unary_message(c, message);
    } else if (c->role == PF_CALL_STREAM && c->held) {
        c->half_closed = true;
        pf_call_make_ready(c);
    } else if (c->role == PF_CALL_STREAM) {
        pf_call_end(c, GRPC_STATUS_OK, ""); /* it has sent no message */
    } else {
        pf_call_end(c, GRPC_STATUS_INVALID_ARGUMENT, "a request without a message");
    }
    if (message) grpc_byte_buffer_destroy(message);
}

static void on_written(pf_call *c, bool success)
{
    pf_call_written(c);
    if (c->ended) return;
    if (!success)
        c->ended = true; /* the stream has failed: PF_EV_OVER follows */
    else if (!pf_call_write_on(c) && c->role == PF_CALL_WATCH)
        pf_call_send_health(c);
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
        pf_call_release_slot(c);
        pf_call_make_ready(c); /* the computing thread releases it */
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
    const bool done = c && pf_call_retire(c);
    pthread_mutex_unlock(&server->lock);

    if (another) pf_server_accept_call(server);
    if (done) pf_call_free(c);
    if (!c) atomic_store(&server->drained, true);
    if (!c || done) pf_poller_notify(&server->poller); /* shutdown waits for the last of them */
}
