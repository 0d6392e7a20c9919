/* Decodes and submits what streams have sent, and encodes and sends the answers, on the computing thread. */
#include "rpc/server/server_internal.h"

#include "base/clock.h"
#include "base/stop.h"
#include "proto/batch_halves.h"

/* Submitted before answers are collected: so many batches, and no more once they have so many bytes, which take some
 * milliseconds to decode. A batch may be a prompt of 3 MiB; those of a round are below 0.15 MB. */
enum { ROUND_BATCHES = 64, ROUND_BYTES = 1 << 20 };

static pf_call *take_ready(pf_server *server)
{
    pthread_mutex_lock(&server->lock);
    pf_call *c = server->ready;
    if (c) {
        server->ready = c->next_ready;
        if (!server->ready) server->ready_end = &server->ready;
    }
    pthread_mutex_unlock(&server->lock);
    return c;
}

/* Proposals may exceed a message: 64 tokens with 256 ids and probabilities each take 0.15 MB. So may verdicts the memory that a codec has for
 * one: 65 tokens with 20 log-probabilities each take 11 KB. Such answers are sent in parts, of which PF_N_OUTBOUND may wait. */
void pf_server_send_batch(void *user, void *stream, const pf_batch *batch)
{
    pf_server *server = user;
    pf_call *c = stream;
    pf_batch first, second;
    grpc_byte_buffer *message = pf_grpc_encode(server->codec[c->service], batch);
    if (!message && pf_batch_halve(batch, &first, &second)) {
        pf_server_send_batch(user, stream, &first);
        pf_server_send_batch(user, stream, &second);
        return;
    }
    pthread_mutex_lock(&server->lock);
    if (message)
        pf_call_send(c, message);
    else
        pf_call_end(c, GRPC_STATUS_INTERNAL, "an answer larger than a message may be");
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

/* Decodes and submits one message; an error ends its own stream, or refuses one sequence of it. */
static pf_status submit_message(pf_call *c, const pf_inbound *message, pf_error *error)
{
    pf_server *server = c->server;
    grpc_slice hold;
    PF_TRY(pf_grpc_bytes(message->bytes, &hold, error));
    const pf_batch *batch;
    const pf_rejected *rejected;
    pf_status status = pf_codec_decode_parts(server->codec[c->service], GRPC_SLICE_START_PTR(hold),
                                             GRPC_SLICE_LENGTH(hold), &batch, &rejected, error);
    if (status == PF_OK) {
        for (int32_t i = 0; i < batch->n_opens; i++) batch->opens[i].client = c->client;
        status = pf_dispatch_submit(server->dispatch[c->service], c, batch, rejected, pf_now_ns() - message->arrived_ns,
                                    error);
    }
    grpc_slice_unref(hold);
    return status;
}

/* Releases a stream that has ended. */
static void release(pf_call *c)
{
    pf_server *server = c->server;
    pf_dispatch_end_stream(server->dispatch[c->service], c);
    pthread_mutex_lock(&server->lock);
    c->held = false;
    const bool done = pf_call_retire(c);
    pthread_mutex_unlock(&server->lock);
    if (done) pf_call_free(c);
}

/* Takes the oldest message of a stream. Whether there was one. */
static bool take_message(pf_call *c, pf_inbound *message)
{
    pf_server *server = c->server;
    if (c->in_count == 0 || c->ending || c->ended) return false;
    *message = c->in[c->in_head];
    c->in_head = (c->in_head + 1) % PF_N_INBOUND;
    c->in_count--;
    c->in_bytes -= message->n_bytes;
    server->queued_bytes -= message->n_bytes;
    if (c->in_count) pf_call_make_ready(c);
    return true;
}

/* Handles one message of a stream, or its end. Returns the size of the message. */
static size_t handle_next(pf_call *c)
{
    pf_server *server = c->server;
    pf_inbound message;
    pthread_mutex_lock(&server->lock);
    c->is_ready = false;                 /* only now: the handler of its last event could have freed it meanwhile */
    const bool done = pf_call_retire(c); /* released while it was queued */
    const bool over = c->held && c->ended && !c->is_in_round;
    const bool taken = !done && !over && take_message(c, &message);
    c->awaits_answer |= taken;
    if (!done && !over && c->held && !c->is_in_round) {
        c->is_in_round = true;
        c->next_in_round = server->in_round;
        server->in_round = c;
    }
    pthread_mutex_unlock(&server->lock);

    if (done) pf_call_free(c);
    if (over) release(c);
    if (!taken) return 0;
    pf_error error;
    const pf_status status = submit_message(c, &message, &error);
    grpc_byte_buffer_destroy(message.bytes);
    if (status == PF_OK) return message.n_bytes;
    pthread_mutex_lock(&server->lock);
    pf_call_end(c, code_of(status), error.text);
    pthread_mutex_unlock(&server->lock);
    return message.n_bytes;
}

/* Updates what the stream has open and waits for. */
static void update_state(pf_call *c)
{
    const pf_dispatch *dispatch = c->server->dispatch[c->service];
    pf_call_note_sequences(c, pf_dispatch_has_sequences(dispatch, c));
    c->awaits_answer = pf_dispatch_owes(dispatch, c);
}

/* Starts to read the next message of a stream, where its queue has room. */
static void resume_reading(pf_call *c)
{
    if (!c->reading && !c->half_closed && !c->ending && !c->ended && pf_call_has_room(c)) pf_call_read(c);
}

/* After all answers are sent: resumes reading, and ends half-closed streams that wait for nothing. A stream that has
 * ended is released at once, so nothing more is computed for it. */
static void follow_up(pf_server *server)
{
    pthread_mutex_lock(&server->lock);
    pf_call *kept = NULL;
    for (pf_call *c = server->in_round, *next; c; c = next) {
        next = c->next_in_round;
        update_state(c);
        if (c->half_closed && !pf_call_is_waiting(c))
            pf_call_end(c, GRPC_STATUS_OK, "");
        else
            resume_reading(c);
        c->is_in_round = server->is_behind && !c->ended;
        if (c->is_in_round) {
            c->next_in_round = kept;
            kept = c;
        }
        if (c->ended) pf_call_make_ready(c);
    }
    server->in_round = kept;
    pthread_mutex_unlock(&server->lock);
}

bool pf_server_is_stopping(const pf_server *server)
{
    return atomic_load(&server->stop) || pf_is_told(server->stop_flag);
}

bool pf_server_is_overdue(pf_server *server)
{
    const uint64_t now_ns = pf_now_ns();
    if (server->until_ns == 0) {
        if (!pf_server_is_stopping(server)) return false;
        server->until_ns = now_ns + server->config.grace_ns;
    }
    return now_ns >= server->until_ns;
}

/* Whether the peer should return before it continues a long prompt: a client has sent a message or is gone, or the
 * server is stopping. Streams that have been answered are read again here; one without open sequences may be evicted. */
static bool has_other_work(void *user)
{
    pf_server *server = user;
    pthread_mutex_lock(&server->lock);
    for (pf_call *c = server->in_round; c; c = c->next_in_round) {
        update_state(c);
        resume_reading(c);
    }
    const bool ready = server->ready != NULL;
    pthread_mutex_unlock(&server->lock);
    return ready || (!server->shut && pf_server_is_stopping(server)) || pf_server_is_overdue(server);
}

/* What the model has done: a warning where it gives invalid logits, and metrics. */
static void report(pf_server *server, pf_service service)
{
    pf_peer *peer = service == PF_SERVICE_DRAFTER ? server->config.drafter : server->config.verifier;
    char sentence[PF_INVALID_LOG_BYTES];
    if (pf_invalid_log_update(&server->invalid[service], peer, service, sentence) && server->config.log)
        server->config.log(server->config.log_user, sentence);
    pf_traffic_update(server->traffic[service], peer, pf_dispatch_open_sequences(server->dispatch[service]), 0);
}

/* Whether work is left for later. */
static bool collect(pf_server *server, pf_error *error)
{
    bool is_behind = false;
    for (int service = 0; service < PF_N_SERVICES; service++) {
        if (!server->dispatch[service] || server->failed != PF_OK) continue;
        server->failed = pf_dispatch_collect(server->dispatch[service], has_other_work, error);
        report(server, (pf_service)service);
        is_behind |= pf_dispatch_is_behind(server->dispatch[service]);
    }
    return is_behind && server->failed == PF_OK;
}

bool pf_server_compute(pf_server *server, pf_error *error)
{
    int n = 0;
    size_t n_bytes = 0;
    for (pf_call *c; n < ROUND_BATCHES && n_bytes <= ROUND_BYTES && (c = take_ready(server)) != NULL; n++)
        n_bytes += handle_next(c);
    const bool overdue = pf_server_is_overdue(server);
    if (n == 0 && (overdue || !server->is_behind)) return false;
    if (!overdue) server->is_behind = collect(server, error);
    follow_up(server);
    return true;
}

bool pf_server_work_ahead(pf_server *server)
{
    bool any = false;
    if (server->prepared && pf_prepared_any(server->prepared)) pf_poller_leave(&server->poller);
    for (int service = 0; service < PF_N_SERVICES; service++)
        if (server->dispatch[service]) any |= pf_dispatch_work_ahead(server->dispatch[service]);
    return any;
}
