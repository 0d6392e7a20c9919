/* The computing thread: what has come in is decoded and submitted, what comes of it is encoded and sent. */
#include "rpc/server/server_internal.h"

#include "base/clock.h"
#include "base/stop.h"

/* What is submitted before the peer is asked for answers: so many batches, and no more once they have so many bytes, which
 * take some milliseconds to read. One may be a prompt of 3 MiB; what goes with a round is smaller than 0.15 MB. */
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

/* Its proposals in two answers, and what else it has in the second. */
static void send_halves(void *user, void *stream, const pf_batch *batch)
{
    const int32_t half = batch->n_proposals / 2;
    const pf_batch first = { .proposals = batch->proposals, .n_proposals = half, .timing = batch->timing };
    pf_batch second = *batch;
    second.proposals += half;
    second.n_proposals -= half;
    pf_server_send_batch(user, stream, &first);
    pf_server_send_batch(user, stream, &second);
}

/* Proposals alone may be more than fits: 64 tokens, of 256 ids and probabilities each, are 0.15 MB. One does fit in 4 MiB,
 * with all the refusals that there may be (0.08 MB); 256 go in sixteen answers at most, and PF_N_OUTBOUND may wait. */
void pf_server_send_batch(void *user, void *stream, const pf_batch *batch)
{
    pf_server *server = user;
    pf_call *c = stream;
    grpc_byte_buffer *message = pf_grpc_encode(server->codec[c->service], batch);
    if (!message && batch->n_proposals > 1) {
        send_halves(user, stream, batch);
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

/* Decode and submit one message; the stream alone pays for what is wrong with it, or one sequence of it. */
static pf_status submit_message(pf_call *c, const pf_inbound *message, pf_error *error)
{
    pf_server *server = c->server;
    grpc_slice hold;
    PF_TRY(pf_grpc_bytes(message->bytes, &hold, error));
    const pf_batch *batch;
    const pf_rejected *rejected;
    pf_status status = pf_codec_decode_parts(server->codec[c->service], GRPC_SLICE_START_PTR(hold),
                                             GRPC_SLICE_LENGTH(hold), &batch, &rejected, error);
    if (status == PF_OK)
        status = pf_dispatch_submit(server->dispatch[c->service], c, batch, rejected, pf_now_ns() - message->arrived_ns,
                                    error);
    grpc_slice_unref(hold);
    return status;
}

/* Let go of a stream that is over. */
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

/* Its oldest message, when it is to be computed. Whether there was one. */
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

/* One message of a stream, or its end. Returns the message's bytes. */
static size_t absorb(pf_call *c)
{
    pf_server *server = c->server;
    pf_inbound message;
    pthread_mutex_lock(&server->lock);
    c->is_ready = false; /* not as it was taken: whoever handles its last event meanwhile would free it */
    const bool done = pf_call_retire(c); /* let go of while it was in line */
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

/* What it has open and waits for, as far as the peer has come. */
static void look_at(pf_call *c)
{
    const pf_dispatch *dispatch = c->server->dispatch[c->service];
    pf_call_note_sequences(c, pf_dispatch_has_sequences(dispatch, c));
    c->awaits_answer = pf_dispatch_owes(dispatch, c);
}

/* Ask for a stream's next message, where there is room for one and it may come. */
static void read_on(pf_call *c)
{
    if (!c->reading && !c->half_closed && !c->ending && !c->ended && pf_call_has_room(c)) pf_call_read(c);
}

/* What there was has been sent: streams are read on, and those whose client has said all end well once nothing is left
 * for them. One that is over is let go of at once, so that nothing more is computed for it. */
static void follow_up(pf_server *server)
{
    pthread_mutex_lock(&server->lock);
    pf_call *kept = NULL;
    for (pf_call *c = server->in_round, *next; c; c = next) {
        next = c->next_in_round;
        look_at(c);
        if (c->half_closed && !pf_call_is_waiting(c))
            pf_call_end(c, GRPC_STATUS_OK, "");
        else
            read_on(c);
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
    return atomic_load(&server->stop) || pf_is_told(server->told);
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

/* Whether the peer should be left before it goes on with a long prompt: somebody says something, or is gone, or the server is
 * to stop. Who has been answered by now, or is closing, can say so only if he is read; and where he has nothing open any more
 * he makes way for others. */
static bool has_news(void *user)
{
    pf_server *server = user;
    pthread_mutex_lock(&server->lock);
    for (pf_call *c = server->in_round; c; c = c->next_in_round) {
        look_at(c);
        read_on(c);
    }
    const bool ready = server->ready != NULL;
    pthread_mutex_unlock(&server->lock);
    return ready || (!server->shut && pf_server_is_stopping(server)) || pf_server_is_overdue(server);
}

/* Whether something is left for later. */
static bool collect(pf_server *server, pf_error *error)
{
    bool is_behind = false;
    for (int service = 0; service < PF_N_SERVICES; service++) {
        if (!server->dispatch[service] || server->failed != PF_OK) continue;
        server->failed = pf_dispatch_collect(server->dispatch[service], has_news, error);
        is_behind |= pf_dispatch_is_behind(server->dispatch[service]);
    }
    return is_behind && server->failed == PF_OK;
}

bool pf_server_compute(pf_server *server, pf_error *error)
{
    int n = 0;
    size_t n_bytes = 0;
    for (pf_call *c; n < ROUND_BATCHES && n_bytes <= ROUND_BYTES && (c = take_ready(server)) != NULL; n++)
        n_bytes += absorb(c);
    const bool overdue = pf_server_is_overdue(server);
    if (n == 0 && (overdue || !server->is_behind)) return false;
    if (!overdue) server->is_behind = collect(server, error);
    follow_up(server);
    return true;
}
