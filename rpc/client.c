#include "rpc/client.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/address.h"
#include "rpc/grpc_util.h"
#include "rpc/poller.h"

enum {
    N_OUTBOUND = 16, /* batches that wait for the transport; then the peer counts as gone */

    /* Batches on their way since the last answer. A process that was stopped reads no more, and 280 small messages fill
     * its unix socket: gRPC 1.51 then never lets go of the connection, neither for a ping without an answer, which it
     * cannot write, nor for the end of the channel. Past it one goes out a second. */
    N_UNANSWERED = 64,
    PROBE_NS = 1000 * 1000 * 1000,
    FAREWELL_NS = 1000 * 1000 * 1000, /* how long a call's end is waited for, should it come to that all the same */

    /* Reconnection: a worker that comes back is taken up within a second. A host that swallows packets must not hold
     * an attempt for longer than that either. */
    BACKOFF_MS = 100,
    BACKOFF_MAX_MS = 200,
    CONNECT_ATTEMPT_MS = 600,
    MEND_NS = 100 * 1000 * 1000,           /* between a broken stream and the next attempt */
    MEND_INFO_NS = 2 * 1000 * 1000 * 1000, /* an attempt's question */
    AWAY_NS = 10 * 1000 * 1000,            /* of a caller who collects nothing, until the back of the poller polls */
};

/* Events of the completion queue. */
typedef enum { EV_INFO, EV_STARTED, EV_SENT, EV_READ, EV_STATUS, N_EVENTS } event_kind;

typedef enum {
    LINK_DOWN,    /* nothing is under way; at mend_ns the next attempt begins */
    LINK_ASKING,  /* GetModelInfo is under way */
    LINK_UP,      /* a stream is open */
    LINK_CLOSING, /* a stream is ending */
} link_state;

/* One RPC and what core writes into. */
typedef struct {
    grpc_call *grpc;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *received;
    grpc_status_code status;
    grpc_slice details;
    int pending; /* events to come */
} rpc;

typedef struct {
    pf_peer head;
    pf_rpc_client_config config;
    char address[PF_MAX_ADDRESS_BYTES];
    const char *stream_method, *info_method;
    grpc_channel *channel;
    pf_poller poller; /* its front is the caller */

    pf_codec *encoder, *decoder; /* the caller's */

    pthread_mutex_t lock;
    link_state state;
    bool stopping;
    bool lost;  /* the caller has yet to be told that a stream broke */
    bool asked; /* the first attempt is over */
    pf_status asked_status;
    pf_error asked_error;
    bool known; /* info is what somebody said */
    pf_model_info info;
    pf_error why; /* it is down, or was last */
    uint64_t mend_ns;
    rpc call;
    bool sending, reading;
    int32_t n_unanswered;     /* batches that ask for an answer, since the last one */
    uint64_t sent_ns;         /* when the last batch was taken */
    grpc_byte_buffer *answer; /* for the caller */
    grpc_byte_buffer *out[N_OUTBOUND];
    int32_t out_head, out_count;
    pf_rpc_client_stats stats;
} client;

/* ---- the link, with the lock held ------------------------------------------------------------------------------ */

static void say(const client *c, const char *sentence)
{
    if (c->config.log) c->config.log(c->config.log_user, sentence);
}

static bool post(client *c, const grpc_op *ops, size_t n, event_kind kind)
{
    c->call.pending++;
    if (grpc_call_start_batch(c->call.grpc, ops, n, (void *)(uintptr_t)(kind + 1), NULL) == GRPC_CALL_OK) return true;
    c->call.pending--;
    return false;
}

static void open_call(client *c, const char *method, uint64_t deadline_ns)
{
    c->call = (rpc){ .details = grpc_empty_slice(), .status = GRPC_STATUS_UNKNOWN };
    grpc_metadata_array_init(&c->call.initial);
    grpc_metadata_array_init(&c->call.trailing);
    const gpr_timespec deadline = deadline_ns ? pf_grpc_deadline(deadline_ns) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
    c->call.grpc = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->poller.cq,
                                            grpc_slice_from_static_string(method), NULL, deadline, NULL);
}

static void close_call(client *c)
{
    rpc *call = &c->call;
    if (!call->grpc) return;
    if (call->received) grpc_byte_buffer_destroy(call->received);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->details);
    grpc_call_unref(call->grpc);
    memset(call, 0, sizeof *call);
}

static void drop_queues(client *c)
{
    if (c->answer) grpc_byte_buffer_destroy(c->answer);
    c->answer = NULL;
    for (; c->out_count; c->out_count--, c->out_head = (c->out_head + 1) % N_OUTBOUND) {
        grpc_byte_buffer_destroy(c->out[c->out_head]);
        c->stats.n_dropped++;
    }
}

static grpc_op status_op(rpc *call)
{
    return (grpc_op){ .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                      .data.recv_status_on_client = { .trailing_metadata = &call->trailing,
                                                      .status = &call->status,
                                                      .status_details = &call->details } };
}

/* Ask who is there. The first time a refused connection ends the attempt at once; later it waits for the channel. */
static void ask(client *c, uint64_t timeout_ns)
{
    uint8_t bytes[PF_MAX_INFO_BYTES];
    size_t n = 0;
    if (pf_codec_encode_info_request(bytes, sizeof bytes, &n) != PF_OK) return;
    grpc_byte_buffer *request = pf_grpc_copy(bytes, n);
    open_call(c, c->info_method, pf_now_ns() + timeout_ns);
    const grpc_op ops[] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA, .flags = c->asked ? GRPC_INITIAL_METADATA_WAIT_FOR_READY : 0 },
        { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
        { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->call.initial },
        { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->call.received },
        status_op(&c->call),
    };
    c->state = LINK_ASKING;
    if (!post(c, ops, sizeof ops / sizeof *ops, EV_INFO)) {
        close_call(c);
        c->state = LINK_DOWN;
        c->mend_ns = pf_now_ns() + MEND_NS;
    }
    grpc_byte_buffer_destroy(request);
}

static void read_next(client *c)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->call.received };
    c->reading = post(c, &op, 1, EV_READ);
}

static void start_stream(client *c)
{
    open_call(c, c->stream_method, 0);
    c->sending = c->reading = false;
    c->n_unanswered = 0;
    const grpc_op status = status_op(&c->call);
    const grpc_op start[] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA },
        { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->call.initial },
    };
    c->state = LINK_UP;
    c->stats.n_streams++;
    (void)post(c, &status, 1, EV_STATUS);
    (void)post(c, start, sizeof start / sizeof *start, EV_STARTED);
    read_next(c);
}

static void start_send(client *c, grpc_byte_buffer *message)
{
    const grpc_op op = { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message };
    c->sending = post(c, &op, 1, EV_SENT);
    c->stats.n_sent++;
    grpc_byte_buffer_destroy(message);
}

static bool same_vocabulary(const pf_model_info *a, const pf_model_info *b)
{
    return a->vocab_size == b->vocab_size &&
           memcmp(a->vocab_fingerprint, b->vocab_fingerprint, sizeof a->vocab_fingerprint) == 0;
}

static pf_status status_of(grpc_status_code code)
{
    switch (code) {
    case GRPC_STATUS_UNIMPLEMENTED: return PF_UNSUPPORTED;
    case GRPC_STATUS_INVALID_ARGUMENT: return PF_FORMAT;
    default: return PF_UNAVAILABLE;
    }
}

static pf_status decode_info(grpc_byte_buffer *answer, pf_model_info *info, pf_error *error)
{
    grpc_slice hold;
    PF_TRY(pf_grpc_bytes(answer, &hold, error));
    const pf_status status = pf_codec_decode_info(GRPC_SLICE_START_PTR(hold), GRPC_SLICE_LENGTH(hold), info, error);
    grpc_slice_unref(hold);
    return status;
}

static pf_status read_info(client *c, pf_model_info *info, pf_error *error)
{
    if (c->call.status != GRPC_STATUS_OK || !c->call.received) {
        char *details = grpc_slice_to_c_string(c->call.details);
        const pf_status status = c->call.status == GRPC_STATUS_OK ? PF_FORMAT : status_of(c->call.status);
        const bool late = c->call.status == GRPC_STATUS_DEADLINE_EXCEEDED;
        const pf_status failed = pf_fail(error, status, "%s: %s (%s)", c->address,
                                         status == PF_UNSUPPORTED ? "this service is not offered there"
                                         : late                   ? "nobody answers in time"
                                                                  : "nobody answers",
                                         details);
        gpr_free(details);
        return failed;
    }
    pf_error why;
    const pf_status status = decode_info(c->call.received, info, &why);
    if (status != PF_OK) return pf_fail(error, status, "%s: %s", c->address, why.text);
    if (!c->known || same_vocabulary(info, &c->info)) return PF_OK;
    return pf_fail(error, PF_UNSUPPORTED, "%s: another model is there now: %s with %d tokens, expected %s with %d",
                   c->address, info->model_id, (int)info->vocab_size, c->info.model_id, (int)c->info.vocab_size);
}

static void say_connected(const client *c)
{
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s: connected again, to %s", c->address, c->info.model_id);
    say(c, sentence);
}

static void on_info(client *c)
{
    pf_model_info info;
    pf_error error = { .status = PF_OK };
    const pf_status status = read_info(c, &info, &error);
    close_call(c);
    c->state = LINK_DOWN;
    c->mend_ns = pf_now_ns() + MEND_NS;
    if (status == PF_OK) {
        c->info = info;
        c->known = true;
        if (!c->stopping) start_stream(c);
        if (c->asked) say_connected(c);
    } else {
        if (status == PF_UNSUPPORTED && c->known && c->why.status != status) say(c, error.text);
        c->why = error;
    }
    if (!c->asked) {
        c->asked = true;
        c->asked_status = status;
        c->asked_error = error;
    }
    pf_poller_notify(&c->poller);
}

static void on_stream_read(client *c, bool success)
{
    c->reading = false;
    if (!success || !c->call.received || c->state != LINK_UP) return; /* the status tells the rest */
    c->answer = c->call.received;
    c->call.received = NULL;
    c->stats.n_received++;
    c->n_unanswered = 0;
    pf_poller_notify(&c->poller);
}

static void on_sent(client *c, bool success)
{
    c->sending = false;
    if (!success || c->out_count == 0 || c->state != LINK_UP) return;
    grpc_byte_buffer *next = c->out[c->out_head];
    c->out_head = (c->out_head + 1) % N_OUTBOUND;
    c->out_count--;
    start_send(c, next);
}

/* The stream has its status: whatever the peer knew is gone. */
static void on_status(client *c)
{
    char *details = grpc_slice_to_c_string(c->call.details);
    (void)pf_fail(&c->why, PF_UNAVAILABLE, "%s: the stream broke (status %d%s%s)", c->address, (int)c->call.status,
                  *details ? ": " : "", details);
    gpr_free(details);
    c->state = LINK_CLOSING;
    c->lost = true;
    drop_queues(c);
    if (!c->stopping) say(c, c->why.text);
    pf_poller_notify(&c->poller);
}

/* Whatever it changes, whoever waits on the front is told by pf_poller_notify. */
static void on_event(void *user, void *tag, bool success)
{
    client *c = user;
    const event_kind kind = (event_kind)((uintptr_t)tag - 1);
    pthread_mutex_lock(&c->lock);
    c->call.pending--;
    switch (kind) {
    case EV_INFO: on_info(c); break;
    case EV_SENT: on_sent(c, success); break;
    case EV_READ: on_stream_read(c, success); break;
    case EV_STATUS: on_status(c); break;
    case EV_STARTED:
    case N_EVENTS:
    default: break;
    }
    if (c->state == LINK_CLOSING && c->call.pending == 0) {
        close_call(c);
        c->state = LINK_DOWN;
        c->mend_ns = pf_now_ns() + MEND_NS;
        pf_poller_notify(&c->poller);
    }
    pthread_mutex_unlock(&c->lock);
}

/* From the back alone: nobody waits in collect for a link that is down. */
static void mend(void *user)
{
    client *c = user;
    pthread_mutex_lock(&c->lock);
    if (c->state == LINK_DOWN && !c->stopping && c->asked && pf_now_ns() >= c->mend_ns) ask(c, MEND_INFO_NS);
    pthread_mutex_unlock(&c->lock);
}

/* ---- pf_peer, on the caller's thread --------------------------------------------------------------------------- */

/* Whether a batch can be sent now, with the lock held. */
static pf_status check_link(client *c)
{
    if (c->lost || c->state != LINK_UP) {
        c->lost = false; /* this tells */
        return PF_UNAVAILABLE;
    }
    if (c->n_unanswered >= N_UNANSWERED && pf_now_ns() < c->sent_ns + PROBE_NS) return PF_LIMIT;
    if (c->sending && c->out_count == N_OUTBOUND)
        return pf_fail(&c->why, PF_UNAVAILABLE, "%s: it does not read: %d batches wait to be sent", c->address,
                       c->out_count);
    return PF_OK;
}

/* Takes the message, with the lock held. */
static void send_or_queue(client *c, grpc_byte_buffer *message)
{
    if (c->sending)
        c->out[(c->out_head + c->out_count++) % N_OUTBOUND] = message;
    else
        start_send(c, message);
}

static pf_status client_submit(pf_peer *peer, const pf_batch *batch)
{
    client *c = (client *)peer;
    grpc_byte_buffer *message = NULL;
    pthread_mutex_lock(&c->lock);
    pf_status status = check_link(c);
    if (status == PF_OK) {
        message = pf_grpc_encode(c->encoder, batch);
        if (!message) status = PF_LIMIT;
    }
    if (status == PF_OK) {
        if (batch->n_verdicts + batch->n_proposals > 0) c->n_unanswered++; /* the rest may go unanswered */
        c->sent_ns = pf_now_ns();
        send_or_queue(c, message);
    } else {
        c->stats.n_dropped++;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* The next answer's bytes. PF_CANCELLED: not yet.  PF_UNAVAILABLE: no more on this stream.
 *
 * An answer is asked for here, by a caller who has nothing better to do, and not when the last one has come: core then tells
 * the peer at once how much room there is, in a packet of its own, and whoever has an answer wants to go on. */
static pf_status take_answer(client *c, grpc_byte_buffer **answer, pf_error *error)
{
    pf_status status = PF_CANCELLED;
    pthread_mutex_lock(&c->lock);
    if (c->answer) {
        status = PF_OK;
        *answer = c->answer;
        c->answer = NULL;
    } else if (c->lost || c->state != LINK_UP) {
        status = pf_fail(error, PF_UNAVAILABLE, "%s", c->why.text);
        c->lost = false;
    } else if (!c->reading) {
        read_next(c);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* Looks once at least, whatever the deadline: a caller who never waits would otherwise hear only from the back of the poller,
 * 10 ms later, of what has been sent, and a fast target fills the queue in two. */
static pf_status await_answer(client *c, uint64_t deadline_ns, grpc_byte_buffer **answer, pf_error *error)
{
    const uint64_t spin_until_ns = pf_now_ns() + c->config.spin_ns;
    for (bool last = false;; last = pf_now_ns() >= deadline_ns) {
        const pf_status status = take_answer(c, answer, error);
        if (status != PF_CANCELLED || last) return status;
        pf_poller_wait(&c->poller, spin_until_ns, deadline_ns);
    }
}

static pf_status decode_answer(client *c, grpc_byte_buffer *answer, const pf_batch **out, pf_error *error)
{
    grpc_slice hold;
    PF_TRY(pf_grpc_bytes(answer, &hold, error));
    const pf_status status =
        pf_codec_decode_batch(c->decoder, GRPC_SLICE_START_PTR(hold), GRPC_SLICE_LENGTH(hold), out, error);
    grpc_slice_unref(hold);
    return status;
}

/* End the stream; a new one may be better, and every sequence starts afresh on it. */
static pf_status hang_up(client *c, const char *nonsense, pf_error *error)
{
    pthread_mutex_lock(&c->lock);
    (void)pf_fail(&c->why, PF_UNAVAILABLE, "%s: it talks nonsense: %s", c->address, nonsense);
    if (error) *error = c->why;
    if (c->state == LINK_UP) (void)grpc_call_cancel_with_status(c->call.grpc, GRPC_STATUS_CANCELLED, nonsense, NULL);
    pthread_mutex_unlock(&c->lock);
    return PF_UNAVAILABLE;
}

static pf_status client_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    client *c = (client *)peer;
    grpc_byte_buffer *answer;
    PF_TRY(await_answer(c, deadline_ns, &answer, error));
    pf_error nonsense;
    const pf_status status = decode_answer(c, answer, out, &nonsense);
    grpc_byte_buffer_destroy(answer);
    return status == PF_OK ? PF_OK : hang_up(c, nonsense.text, error);
}

static void client_why(pf_peer *peer, pf_error *out)
{
    client *c = (client *)peer;
    pthread_mutex_lock(&c->lock);
    *out = c->why;
    pthread_mutex_unlock(&c->lock);
}

static pf_status client_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    client *c = (client *)peer;
    pthread_mutex_lock(&c->lock);
    pf_status status = PF_OK;
    if (c->known)
        *out = c->info;
    else
        status = pf_fail(error, PF_UNAVAILABLE, "%s", c->why.text);
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

/* Once nothing is polled any more, or was ever. */
static void dismantle(client *c)
{
    if (c->channel) {
        grpc_channel_destroy(c->channel);
        grpc_shutdown_blocking();
    }
    drop_queues(c);
    pf_codec_destroy(c->encoder);
    pf_codec_destroy(c->decoder);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Waits on the front, with the lock held, until something has changed. */
static void await_change(client *c, uint64_t deadline_ns)
{
    pthread_mutex_unlock(&c->lock);
    pf_poller_wait(&c->poller, 0, deadline_ns);
    pthread_mutex_lock(&c->lock);
}

static void client_destroy(pf_peer *peer)
{
    client *c = (client *)peer;
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    if (c->call.grpc) grpc_call_cancel(c->call.grpc, NULL);
    /* The queue may be shut down once nothing is posted any more: `stopping` sees to it. */
    const uint64_t until_ns = pf_now_ns() + FAREWELL_NS;
    while (c->call.grpc && pf_now_ns() < until_ns) await_change(c, until_ns);
    const bool stuck = c->call.grpc != NULL;
    pthread_mutex_unlock(&c->lock);
    if (stuck) return; /* what gRPC does not let go of is its own until the process ends */
    pf_poller_stop(&c->poller);
    dismantle(c);
}

static const pf_peer_ops OPS = {
    .submit = client_submit,
    .collect = client_collect,
    .info = client_info,
    .destroy = client_destroy,
    .why = client_why,
};

static grpc_channel *make_channel(const pf_address *address, size_t max_message_bytes)
{
    grpc_arg args[] = {
        pf_grpc_int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        pf_grpc_int_arg(GRPC_ARG_ENABLE_RETRIES, 0), /* a stream's state cannot be replayed by the transport */
        pf_grpc_int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), /* each peer has a connection of its own */
        pf_grpc_int_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, BACKOFF_MS),
        pf_grpc_int_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_ATTEMPT_MS),
        pf_grpc_int_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, BACKOFF_MAX_MS),
        pf_grpc_int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)max_message_bytes),
        pf_grpc_int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, (int)max_message_bytes),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PF_RPC_KEEPALIVE_MS),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PF_RPC_KEEPALIVE_TIMEOUT_MS),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        pf_grpc_int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        pf_grpc_int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        pf_grpc_int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
    };
    const grpc_channel_args all = { .num_args = sizeof args / sizeof *args, .args = args };
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(address->text, credentials, &all);
    grpc_channel_credentials_release(credentials);
    return channel;
}

static pf_status first_contact(client *c, pf_error *error)
{
    pthread_mutex_lock(&c->lock);
    ask(c, c->config.connect_timeout_ns);
    while (!c->asked) await_change(c, UINT64_MAX);
    const pf_status status = c->asked_status;
    if (status != PF_OK && error) *error = c->asked_error;
    pthread_mutex_unlock(&c->lock);
    return status;
}

static void settle(pf_rpc_client_config *config)
{
    if (config->connect_timeout_ns == 0) config->connect_timeout_ns = 2000u * 1000 * 1000;
    if (config->max_message_bytes == 0) config->max_message_bytes = PF_RPC_DEFAULT_MESSAGE_BYTES;
    if (config->spin_ns == 0) config->spin_ns = PF_RPC_DEFAULT_SPIN_NS;
}

static pf_status connect_to(const char *address_text, const char *stream_method, const char *info_method,
                            const pf_rpc_client_config *config, pf_peer **out, pf_error *error)
{
    pf_address address;
    PF_TRY(pf_address_parse(address_text, &address, error));
    client *c = calloc(1, sizeof *c);
    if (!c) return pf_fail(error, PF_NOMEM, "%s: no memory for a connection", address_text);
    if (config) c->config = *config;
    settle(&c->config);
    c->head.ops = &OPS;
    strcpy(c->address, address.text);
    c->stream_method = stream_method;
    c->info_method = info_method;
    (void)pf_fail(&c->why, PF_UNAVAILABLE, "%s: not connected yet", c->address);
    pthread_mutex_init(&c->lock, NULL);
    pf_status status = pf_codec_create(c->config.max_message_bytes, 0, &c->encoder);
    if (status == PF_OK) status = pf_codec_create(c->config.max_message_bytes, 0, &c->decoder);
    if (status != PF_OK) {
        const size_t n = c->config.max_message_bytes;
        dismantle(c);
        return pf_fail(error, status, "%s: messages of %zu bytes cannot be had", address_text, n);
    }
    pf_grpc_begin();
    c->channel = make_channel(&address, c->config.max_message_bytes);
    const pf_poller_config polling = { .handle = on_event, .look = mend, .user = c, .away_ns = AWAY_NS };
    if (!pf_poller_start(&c->poller, &polling)) {
        dismantle(c);
        return pf_fail(error, PF_NOMEM, "%s: the connection's thread cannot be started", address_text);
    }

    status = first_contact(c, error);
    if (status == PF_OK || (status == PF_UNAVAILABLE && c->config.keep_trying))
        *out = &c->head;
    else
        client_destroy(&c->head);
    return status;
}

pf_status pf_rpc_drafter_connect(const char *address, const pf_rpc_client_config *config, pf_peer **out,
                                 pf_error *error)
{
    return connect_to(address, PF_RPC_DRAFTER "Draft", PF_RPC_DRAFTER "GetModelInfo", config, out, error);
}

pf_status pf_rpc_verifier_connect(const char *address, const pf_rpc_client_config *config, pf_peer **out,
                                  pf_error *error)
{
    return connect_to(address, PF_RPC_VERIFIER "Verify", PF_RPC_VERIFIER "GetModelInfo", config, out, error);
}

void pf_rpc_client_get_stats(pf_peer *peer, pf_rpc_client_stats *out)
{
    client *c = (client *)peer;
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    pthread_mutex_unlock(&c->lock);
}
