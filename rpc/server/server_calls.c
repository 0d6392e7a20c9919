/* Reads and writes the messages of one call, and frees it once nothing refers to it. */
#include "rpc/server/server_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

bool pf_call_post(pf_call *c, const grpc_op *ops, size_t n, pf_event_kind kind)
{
    c->pending++;
    if (grpc_call_start_batch(c->grpc, ops, n, &c->tags[kind], NULL) == GRPC_CALL_OK) return true;
    c->pending--;
    return false;
}

void pf_call_read(pf_call *c)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->received };
    c->reading = pf_call_post(c, &op, 1, PF_EV_READ);
}

/* Drops received messages that are not computed any more. */
static void drop_inbound(pf_call *c)
{
    for (; c->in_count; c->in_count--, c->in_head = (c->in_head + 1) % PF_N_INBOUND)
        grpc_byte_buffer_destroy(c->in[c->in_head].bytes);
    c->server->queued_bytes -= c->in_bytes;
    c->in_bytes = 0;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Drops queued answers. gRPC has its own reference to the message being written. */
static void drop_outbound(pf_call *c)
{
    for (; c->out_count; c->out_count--, c->out_head = (c->out_head + 1) % PF_N_OUTBOUND)
        grpc_byte_buffer_destroy(c->out[c->out_head]);
    c->server->unread_bytes -= c->unread_bytes;
    c->unread_bytes = c->writing_bytes = 0;
}

static void reject_unread(pf_call *c)
{
    pf_call_reject(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "the stream is not read");
    drop_outbound(c);
}

/* Rejects the stream with the most unread bytes, not the one that exceeds the limit. */
static void reject_fullest(const pf_server *server)
{
    pf_call *fullest = NULL;
    for (pf_call *c = server->oldest; c; c = c->next)
        if (!fullest || c->unread_bytes > fullest->unread_bytes) fullest = c;
    if (fullest) reject_unread(fullest);
}

/* Sends the final status, after `message` where there is one. */
static void send_status(pf_call *c, grpc_byte_buffer *message)
{
    c->ended = true;
    grpc_op ops[3];
    size_t n = 0;
    if (!c->opened) ops[n++] = pf_call_metadata_op();
    c->opened = true;
    if (message) ops[n++] = pf_call_message_op(message);
    grpc_slice text = grpc_slice_from_copied_string(c->end_text);
    ops[n++] = (grpc_op){
        .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
        .data.send_status_from_server = { .status = c->end_code, .status_details = &text },
    };
    (void)pf_call_post(c, ops, n, PF_EV_STATUS); /* rejected: the call is finished, and PF_EV_OVER follows anyway */
    grpc_slice_unref(text);
}

void pf_call_end(pf_call *c, grpc_status_code code, const char *text)
{
    if (c->ending || c->ended) return;
    c->ending = true;
    c->end_code = code;
    snprintf(c->end_text, sizeof c->end_text, "%s", text);
    drop_inbound(c);
    if (!c->writing) send_status(c, NULL);
}

void pf_call_reply(pf_call *c, const uint8_t *bytes, size_t n_bytes)
{
    grpc_byte_buffer *message = pf_grpc_copy(bytes, n_bytes);
    c->ending = true;
    c->end_code = GRPC_STATUS_OK;
    send_status(c, message);
    grpc_byte_buffer_destroy(message);
}

static void start_write(pf_call *c, grpc_byte_buffer *message)
{
    const grpc_op op = pf_call_message_op(message);
    c->writing_bytes = grpc_byte_buffer_length(message);
    c->writing = pf_call_post(c, &op, 1, PF_EV_WRITE);
    grpc_byte_buffer_destroy(message); /* core has its own reference */
}

void pf_call_written(pf_call *c)
{
    c->writing = false;
    c->unread_bytes -= c->writing_bytes;
    c->server->unread_bytes -= c->writing_bytes;
    c->writing_bytes = 0;
}

void pf_call_send(pf_call *c, grpc_byte_buffer *message)
{
    pf_server *server = c->server;
    if (c->ending || c->ended || c->out_count == PF_N_OUTBOUND) {
        grpc_byte_buffer_destroy(message);
        if (!c->ending && !c->ended) reject_unread(c);
        return;
    }
    const size_t n_bytes = grpc_byte_buffer_length(message);
    c->waiting_since_ns = pf_now_ns();
    c->unread_bytes += n_bytes;
    server->unread_bytes += n_bytes;
    if (c->writing)
        c->out[(c->out_head + c->out_count++) % PF_N_OUTBOUND] = message;
    else
        start_write(c, message);
    if (server->unread_bytes > server->room.unread_bytes) reject_fullest(server);
}

bool pf_call_write_on(pf_call *c)
{
    if (c->out_count) {
        grpc_byte_buffer *next = c->out[c->out_head];
        c->out_head = (c->out_head + 1) % PF_N_OUTBOUND;
        c->out_count--;
        start_write(c, next);
        return true;
    }
    if (c->ending) send_status(c, NULL);
    return c->ending;
}

/* ---- lists, and the end ------------------------------------------------------------------------------------------ */

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

void pf_call_link(pf_server *server, pf_call *c)
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

bool pf_call_retire(pf_call *c)
{
    if (c->pending > 0 || c->held || c->is_ready) return false;
    pf_server *server = c->server;
    if (c->grpc) unlink_call(server, c);
    server->n_calls--;
    drop_inbound(c);
    drop_outbound(c);
    return true;
}

void pf_call_free(pf_call *c)
{
    if (c->received) grpc_byte_buffer_destroy(c->received);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    if (c->grpc) {
        pf_listener_call_freed(c->server->listener, c->connection);
        grpc_call_unref(c->grpc);
    }
    free(c);
}

bool pf_call_has_room(const pf_call *c)
{
    return c->in_count < PF_N_INBOUND && c->in_bytes < c->server->room.message_bytes;
}

/* ---- heartbeats ------------------------------------------------------------------------------------------------- */

static void send_heartbeat(pf_call *c, uint64_t now_ns)
{
    if (!pf_call_is_waiting(c) || c->writing || now_ns < c->waiting_since_ns + c->server->config.heartbeat_ns) return;
    pf_call_send(c, pf_grpc_copy((const uint8_t *)"", 0)); /* an empty batch */
}

void pf_server_send_heartbeats(void *user)
{
    pf_server *server = user;
    const uint64_t now_ns = pf_now_ns();
    pthread_mutex_lock(&server->lock);
    for (pf_call *c = server->in_round; c; c = c->next_in_round) send_heartbeat(c, now_ns);
    for (pf_call *c = server->ready; c; c = c->next_ready) send_heartbeat(c, now_ns);
    pthread_mutex_unlock(&server->lock);
}
