#include "rpc/client/link.h"

#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "rpc/message_budget.h"

enum {
    /* Reconnection: a restarted worker is connected within a second. */
    BACKOFF_MS = 100,
    BACKOFF_MAX_MS = 200,

    /* A connection attempt takes two round trips. The first is short: most that time out have lost a packet, or asked
     * a host that drops packets while another address of the name would answer. Each following attempt is longer, for
     * slow networks; after the longest the cycle restarts. The length that succeeded is kept. */
    FIRST_ATTEMPT_MS = 600,
    ATTEMPT_FACTOR = 4,
    LAST_ATTEMPT_MS = FIRST_ATTEMPT_MS * ATTEMPT_FACTOR * ATTEMPT_FACTOR,

    REFUSAL_NS = 300 * 1000 * 1000,   /* a refused connection fails within this time, on a network that is not slow */
    RECONNECT_NS = 100 * 1000 * 1000, /* between a broken stream and the next attempt */
    LEAST_QUESTION_MS = 2000, /* timeout of GetModelInfo while reconnecting; twice an attempt, where that is more */

    CLOSE_TIMEOUT_NS = 1000 * 1000 * 1000, /* how long to wait for a cancelled call to end */
    CANCEL_POLL_NS = 50 * 1000 * 1000,
    /* How long the caller may not collect until the back of the poller polls. Longer than a step of most targets: to take the poll back from
     * another thread takes two wakeups, which the next proposal would wait for. */
    FRONT_IDLE_NS = 50 * 1000 * 1000,
};

/* Events of the completion queue. */
typedef enum { EV_INFO, EV_STARTED, EV_SENT, EV_READ, EV_STATUS, N_EVENTS } event_kind;

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool post(pf_link *link, const grpc_op *ops, size_t n, event_kind kind)
{
    link->call.pending++;
    if (grpc_call_start_batch(link->call.grpc, ops, n, (void *)(uintptr_t)(kind + 1), NULL) == GRPC_CALL_OK)
        return true;
    link->call.pending--;
    return false;
}

static void open_call(pf_link *link, const char *method, uint64_t deadline_ns)
{
    link->call = (pf_link_call){ .details = grpc_empty_slice(), .status = GRPC_STATUS_UNKNOWN };
    grpc_metadata_array_init(&link->call.initial);
    grpc_metadata_array_init(&link->call.trailing);
    const gpr_timespec deadline = deadline_ns ? pf_grpc_deadline(deadline_ns) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
    link->call.grpc = grpc_channel_create_call(link->channel, NULL, GRPC_PROPAGATE_DEFAULTS, link->poller.cq,
                                               grpc_slice_from_static_string(method), NULL, deadline, NULL);
}

static void close_call(pf_link *link)
{
    pf_link_call *call = &link->call;
    if (!call->grpc) return;
    if (call->received) grpc_byte_buffer_destroy(call->received);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->details);
    grpc_call_unref(call->grpc);
    memset(call, 0, sizeof *call);
}

static void drop_queues(pf_link *link)
{
    if (link->answer) grpc_byte_buffer_destroy(link->answer);
    link->answer = NULL;
    for (; link->out_count; link->out_count--, link->out_head = (link->out_head + 1) % PF_LINK_OUTBOUND)
        grpc_byte_buffer_destroy(link->out[link->out_head]);
}

/* ---- asking, and the stream -------------------------------------------------------------------------------------- */

static grpc_op status_op(pf_link_call *call)
{
    return (grpc_op){ .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                      .data.recv_status_on_client = { .trailing_metadata = &call->trailing,
                                                      .status = &call->status,
                                                      .status_details = &call->details } };
}

/* Timeout of GetModelInfo while reconnecting: two attempts, should one be refused, and the answer. */
static uint64_t question_ns(const pf_link *link)
{
    const int32_t twice_ms = 2 * link->attempt_ms;
    return (uint64_t)(twice_ms > LEAST_QUESTION_MS ? twice_ms : LEAST_QUESTION_MS) * 1000 * 1000;
}

/* Calls GetModelInfo; after the first contact it waits through refused and lost connections. */
static void ask(pf_link *link)
{
    uint8_t bytes[PF_MAX_REQUEST_BYTES];
    size_t n = 0;
    if (pf_codec_encode_info_request(bytes, sizeof bytes, &n) != PF_OK) return;
    grpc_byte_buffer *request = pf_grpc_copy(bytes, n);
    link->asked_ns = pf_now_ns();
    open_call(link, link->info_method, link->asked ? link->asked_ns + question_ns(link) : link->connect_deadline_ns);
    const grpc_op ops[] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA, .flags = link->asked ? GRPC_INITIAL_METADATA_WAIT_FOR_READY : 0 },
        { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
        { .op = GRPC_OP_RECV_INITIAL_METADATA,
          .data.recv_initial_metadata.recv_initial_metadata = &link->call.initial },
        { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &link->call.received },
        status_op(&link->call),
    };
    link->state = PF_LINK_CONNECTING;
    if (!post(link, ops, sizeof ops / sizeof *ops, EV_INFO)) {
        close_call(link);
        link->state = PF_LINK_DOWN;
        link->reconnect_ns = pf_now_ns() + RECONNECT_NS;
    }
    grpc_byte_buffer_destroy(request);
}

void pf_link_read(pf_link *link)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &link->call.received };
    link->reading = post(link, &op, 1, EV_READ);
}

static void start_stream(pf_link *link)
{
    open_call(link, link->stream_method, 0);
    link->n_unanswered = 0;
    const grpc_op status = status_op(&link->call);
    const grpc_op start[] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA },
        { .op = GRPC_OP_RECV_INITIAL_METADATA,
          .data.recv_initial_metadata.recv_initial_metadata = &link->call.initial },
    };
    link->state = PF_LINK_UP;
    link->stats.n_streams++;
    (void)post(link, &status, 1, EV_STATUS);
    (void)post(link, start, sizeof start / sizeof *start, EV_STARTED);
    pf_link_read(link);
}

static void start_send(pf_link *link, grpc_byte_buffer *message)
{
    const grpc_op op = { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message };
    link->sending = post(link, &op, 1, EV_SENT);
    grpc_byte_buffer_destroy(message);
}

void pf_link_send(pf_link *link, grpc_byte_buffer *message)
{
    if (link->sending)
        link->out[(link->out_head + link->out_count++) % PF_LINK_OUTBOUND] = message;
    else
        start_send(link, message);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static bool has_same_fingerprint(const pf_model_info *a, const pf_model_info *b)
{
    return memcmp(a->vocab_fingerprint, b->vocab_fingerprint, sizeof a->vocab_fingerprint) == 0;
}

/* Whether a server with this model info may replace the one that was connected before. */
static bool is_same_peer(const pf_link *link, const pf_model_info *now)
{
    const pf_model_info *before = &link->info;
    return now->vocab_size == before->vocab_size && has_same_fingerprint(now, before) &&
           (!link->one_model ||
            (strcmp(now->model_id, before->model_id) == 0 && pf_model_ids(now) == pf_model_ids(before)));
}

/* A server that knows neither the service nor the method is not a peer: another kind of server, or a proxy in front of
 * one that is not up yet. */
static pf_status status_of(grpc_status_code code)
{
    const bool is_protocol_violation =
        code == GRPC_STATUS_OK || code == GRPC_STATUS_UNIMPLEMENTED || code == GRPC_STATUS_INVALID_ARGUMENT;
    return is_protocol_violation ? PF_FORMAT : PF_UNAVAILABLE;
}

static pf_status decode_info(grpc_byte_buffer *answer, pf_model_info *info, pf_error *error)
{
    grpc_slice hold;
    PF_TRY(pf_grpc_bytes(answer, &hold, error));
    const pf_status status = pf_codec_decode_info(GRPC_SLICE_START_PTR(hold), GRPC_SLICE_LENGTH(hold), info, error);
    grpc_slice_unref(hold);
    return status;
}

/* Whether a failed request timed out, and was not refused: its packets were lost or slow. */
static bool took_long(const pf_link *link)
{
    return pf_now_ns() - link->asked_ns >= REFUSAL_NS;
}

/* By a server that has too many calls: it may have room soon. */
static bool was_rejected(const pf_link *link)
{
    return link->call.status == GRPC_STATUS_RESOURCE_EXHAUSTED;
}

static const char *why_no_answer(const pf_link *link)
{
    const grpc_status_code code = link->call.status;
    if (code == GRPC_STATUS_UNIMPLEMENTED) return "this service is not offered there";
    if (was_rejected(link)) return "it rejects the call, having too many";
    const bool late = code == GRPC_STATUS_DEADLINE_EXCEEDED || (status_of(code) == PF_UNAVAILABLE && took_long(link));
    return late ? "no answer in time" : "no answer";
}

static pf_status read_info(pf_link *link, pf_model_info *info, pf_error *error)
{
    if (link->call.status != GRPC_STATUS_OK || !link->call.received) {
        char *details = grpc_slice_to_c_string(link->call.details);
        const pf_status failed =
            pf_fail(error, status_of(link->call.status), "%s: %s (%s)", link->address, why_no_answer(link), details);
        gpr_free(details);
        return failed;
    }
    pf_error why;
    const pf_status status = decode_info(link->call.received, info, &why);
    if (status != PF_OK) return pf_fail(error, status, "%s: %s", link->address, why.text);
    if (!link->known || is_same_peer(link, info)) return PF_OK;
    const bool other_tokens = info->vocab_size == link->info.vocab_size && !has_same_fingerprint(info, &link->info);
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s: another model is served there now: %s with %d tokens, expected %s with %d%s", link->address,
                   info->model_id, (int)info->vocab_size, link->info.model_id, (int)link->info.vocab_size,
                   other_tokens ? " other ones" : "");
}

static grpc_channel *make_channel(const pf_link *link)
{
    grpc_resource_quota *quota =
        pf_grpc_quota(pf_message_budget_of_client(PF_RPC_DEFAULT_MESSAGE_BYTES, link->config.memory_bytes));
    grpc_arg args[] = {
        pf_grpc_int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        pf_grpc_int_arg(GRPC_ARG_ENABLE_RETRIES, 0), /* a stream's state cannot be replayed by the transport */
        pf_grpc_int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), /* each peer has a connection of its own */
        pf_grpc_int_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, BACKOFF_MS),
        pf_grpc_int_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, link->attempt_ms),
        pf_grpc_int_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, BACKOFF_MAX_MS),
        pf_grpc_int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, PF_RPC_DEFAULT_MESSAGE_BYTES),
        pf_grpc_int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, PF_RPC_DEFAULT_MESSAGE_BYTES),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PF_RPC_KEEPALIVE_MS),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PF_RPC_KEEPALIVE_TIMEOUT_MS),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        pf_grpc_int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        pf_grpc_int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        pf_grpc_int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
        pf_grpc_quota_arg(quota),
    };
    const grpc_channel_args all = { .num_args = sizeof args / sizeof *args, .args = args };
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(link->uri, credentials, &all);
    grpc_channel_credentials_release(credentials);
    grpc_resource_quota_unref(quota);
    return channel;
}

/* Whether a request failed because it timed out. */
static bool was_too_short(const pf_link *link, pf_status status)
{
    return status == PF_UNAVAILABLE && !link->stopping && took_long(link);
}

/* Whether another request may start then: one that starts too late for an answer would report a timeout. */
static bool first_contact_goes_on(const pf_link *link, uint64_t after_ns)
{
    return !link->asked && !link->config.keep_trying && !link->stopping &&
           pf_now_ns() + after_ns < link->connect_deadline_ns;
}

/* The connect timeout of a channel cannot change, so a longer attempt needs a new channel. */
static void try_longer(pf_link *link)
{
    link->attempt_ms = link->attempt_ms < LAST_ATTEMPT_MS ? link->attempt_ms * ATTEMPT_FACTOR : FIRST_ATTEMPT_MS;
    grpc_channel_destroy(link->channel);
    link->channel = make_channel(link);
}

static void on_info(pf_link *link)
{
    pf_model_info info;
    pf_error error = { .status = PF_OK };
    const pf_status status = read_info(link, &info, &error);
    const bool rejected = was_rejected(link);
    close_call(link);
    if (was_too_short(link, status)) {
        const bool again = first_contact_goes_on(link, 0) && link->attempt_ms < LAST_ATTEMPT_MS;
        try_longer(link);
        if (again) {
            ask(link);
            return;
        }
    }
    link->state = PF_LINK_DOWN;
    link->reconnect_ns = pf_now_ns() + RECONNECT_NS;
    if (rejected && first_contact_goes_on(link, RECONNECT_NS + REFUSAL_NS)) return;
    if (status == PF_OK) {
        link->info = info;
        link->known = true;
        if (!link->stopping) start_stream(link);
    } else {
        link->why = error;
    }
    if (!link->asked) {
        link->asked = true;
        link->asked_status = status;
        link->asked_error = error;
    }
    pf_poller_notify(&link->poller);
}

static void on_stream_read(pf_link *link, bool success)
{
    link->reading = false;
    if (link->state != PF_LINK_UP) return;
    if (!success || !link->call.received) {
        /* The status follows, except after a malformed frame: gRPC 1.51 then reports none until the call is cancelled. */
        grpc_call_cancel(link->call.grpc, NULL);
        return;
    }
    link->answer = link->call.received;
    link->call.received = NULL;
    link->stats.n_received++;
    link->n_unanswered = 0;
    pf_poller_notify(&link->poller);
}

static void on_sent(pf_link *link, bool success)
{
    link->sending = false;
    if (!success || link->out_count == 0 || link->state != PF_LINK_UP) return;
    grpc_byte_buffer *next = link->out[link->out_head];
    link->out_head = (link->out_head + 1) % PF_LINK_OUTBOUND;
    link->out_count--;
    start_send(link, next);
}

/* The stream has its status: the peer has lost all sequences. */
static void on_status(pf_link *link)
{
    char *details = grpc_slice_to_c_string(link->call.details);
    (void)pf_fail(&link->why, PF_UNAVAILABLE, "%s: the stream broke (status %d%s%s)", link->address,
                  (int)link->call.status, *details ? ": " : "", details);
    gpr_free(details);
    link->state = PF_LINK_CLOSING;
    link->lost = true;
    drop_queues(link);
    pf_poller_notify(&link->poller);
}

/* Whatever changes, the thread that waits on the front is woken by pf_poller_notify. */
static void on_event(void *user, void *tag, bool success)
{
    pf_link *link = user;
    const event_kind kind = (event_kind)((uintptr_t)tag - 1);
    pthread_mutex_lock(&link->lock);
    link->call.pending--;
    switch (kind) {
    case EV_INFO: on_info(link); break;
    case EV_SENT: on_sent(link, success); break;
    case EV_READ: on_stream_read(link, success); break;
    case EV_STATUS: on_status(link); break;
    case EV_STARTED:
    case N_EVENTS:
    default: break;
    }
    if (link->state == PF_LINK_CLOSING && link->call.pending == 0) {
        close_call(link);
        link->state = PF_LINK_DOWN;
        link->reconnect_ns = pf_now_ns() + RECONNECT_NS;
        pf_poller_notify(&link->poller);
    }
    pthread_mutex_unlock(&link->lock);
}

/* With the lock held. The first contact begins in pf_link_connect, not before. */
static void reconnect(pf_link *link)
{
    const bool may_ask = link->connect_deadline_ns > 0 && !link->stopping;
    if (link->state == PF_LINK_DOWN && may_ask && pf_now_ns() >= link->reconnect_ns) ask(link);
}

/* Called by the back of the poller: after the first contact no thread waits on the front for a link that is down. */
static void look(void *user)
{
    pf_link *link = user;
    pthread_mutex_lock(&link->lock);
    reconnect(link);
    pthread_mutex_unlock(&link->lock);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Called when no thread polls any more, or none ever did. */
static void dismantle(pf_link *link)
{
    grpc_channel_destroy(link->channel);
    grpc_shutdown_blocking();
    drop_queues(link);
    pthread_mutex_destroy(&link->lock);
}

pf_status pf_link_start(pf_link *link, const pf_address *address, pf_error *error)
{
    strcpy(link->address, address->text);
    (void)pf_fail(&link->why, PF_UNAVAILABLE, "%s: not connected yet", link->address);
    PF_TRY(pf_grpc_begin(error));
    pthread_mutex_init(&link->lock, NULL);
    pf_address_to_uri(address, link->uri);
    link->attempt_ms = FIRST_ATTEMPT_MS;
    link->channel = make_channel(link);
    const pf_poller_config polling = { .handle = on_event, .look = look, .user = link, .front_idle_ns = FRONT_IDLE_NS };
    if (pf_poller_start(&link->poller, &polling)) return PF_OK;
    dismantle(link);
    return pf_fail(error, PF_NOMEM, "%s: the connection's thread cannot be started", address->text);
}

/* Waits on the front, with the lock held, until something has changed. */
static void await_change(pf_link *link, uint64_t deadline_ns)
{
    pthread_mutex_unlock(&link->lock);
    pf_poller_wait(&link->poller, 0, deadline_ns);
    pthread_mutex_lock(&link->lock);
}

static bool is_cancelled(const pf_link *link)
{
    return pf_is_told(link->config.cancel);
}

pf_status pf_link_connect(pf_link *link, pf_error *error)
{
    pthread_mutex_lock(&link->lock);
    link->connect_deadline_ns = pf_now_ns() + link->config.connect_timeout_ns;
    while (!link->asked && !is_cancelled(link)) {
        reconnect(link);
        await_change(link, pf_now_ns() + CANCEL_POLL_NS);
    }
    pf_status status = link->asked_status;
    if (!link->asked)
        status = pf_fail(error, PF_CANCELLED, "%s: no answer yet", link->address);
    else if (status != PF_OK && error)
        *error = link->asked_error;
    pthread_mutex_unlock(&link->lock);
    return status;
}

bool pf_link_stop(pf_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->stopping = true;
    if (link->call.grpc) grpc_call_cancel(link->call.grpc, NULL);
    /* The queue may be shut down once nothing is posted any more: `stopping` sees to it. */
    const uint64_t until_ns = pf_now_ns() + CLOSE_TIMEOUT_NS;
    while (link->call.grpc && pf_now_ns() < until_ns) await_change(link, until_ns);
    const bool stuck = link->call.grpc != NULL;
    pthread_mutex_unlock(&link->lock);
    if (stuck) return false;
    pf_poller_stop(&link->poller);
    dismantle(link);
    return true;
}
