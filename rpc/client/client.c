/* Sends batches to a peer across gRPC and receives its answers, over a link that reconnects (rpc/client/link.h). */
#include "rpc/client/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/topology.h"
#include "proto/batch_halves.h"
#include "rpc/client/link.h"
#include "rpc/service.h"

enum {
    /* Batches sent since the last answer. A stopped process does not read, and about 280 small messages fill its unix
     * socket. gRPC 1.51 then never closes the connection: it cannot write the ping that would detect it,
     * nor the end of the channel. Past this limit one batch a second is sent. */
    N_UNANSWERED = 64,
    SECOND_NS = 1000 * 1000 * 1000,

    /* Batches that may wait for the transport. The rest of the queue is kept for closes. */
    N_WAITING = PF_LINK_OUTBOUND / 2,
};

typedef struct {
    pf_peer head;
    pf_link link;
    pf_service service;
    pf_codec *encoder, *decoder; /* the caller's */
} client;

static pf_link *link_of(pf_peer *peer)
{
    return &((client *)peer)->link;
}

/* ---- pf_peer, on the caller's thread ------------------------------------------------------------------------------ */

/* With the lock held. Ends the stream: a new one may work, and every sequence is opened again on it. */
static pf_status cancel_stream(pf_link *link, const char *what)
{
    (void)pf_fail(&link->why, PF_UNAVAILABLE, "%s: %s", link->address, what);
    if (link->state == PF_LINK_UP) {
        (void)grpc_call_cancel_with_status(link->call.grpc, GRPC_STATUS_CANCELLED, what, NULL);
        link->state = PF_LINK_CLOSING; /* nothing more is sent on it */
    }
    return PF_UNAVAILABLE;
}

/* With the lock held. Whether a batch can be sent now. A batch of closes alone is always accepted: there are no more
 * closes than opens, and a peer that misses a close keeps a slot. A full transport queue does not mean that the peer
 * is slow: with a fast target and busy cores this process polls too rarely to see that a batch was sent. */
static pf_status check_link(pf_link *link, const pf_batch *batch)
{
    if (link->lost || link->state != PF_LINK_UP) {
        link->lost = false; /* reported by this return */
        return PF_UNAVAILABLE;
    }
    if (link->sending && link->out_count == PF_LINK_OUTBOUND)
        return cancel_stream(link, "it does not read, and the send queue is full");
    const bool asks = batch->n_opens + batch->n_proposals + batch->n_verdicts > 0;
    if (asks && link->n_unanswered >= N_UNANSWERED && pf_now_ns() < link->sent_ns + SECOND_NS) return PF_LIMIT;
    return asks && link->sending && link->out_count >= N_WAITING ? PF_LIMIT : PF_OK;
}

/* The messages that a batch takes; 0: a part of it is larger than one may be. */
static int32_t count_messages(client *c, const pf_batch *batch)
{
    size_t n_bytes;
    pf_batch first, second;
    if (pf_codec_measure_batch(c->encoder, batch, &n_bytes) == PF_OK) return 1;
    if (!pf_batch_halve(batch, &first, &second)) return 0;
    const int32_t n_first = count_messages(c, &first), n_second = n_first > 0 ? count_messages(c, &second) : 0;
    return n_second > 0 ? n_first + n_second : 0;
}

/* With the lock held, where there is room for all of its messages. message: the whole batch, or NULL: it is too large for one. */
static void send_batch(client *c, const pf_batch *batch, grpc_byte_buffer *message)
{
    pf_link *link = &c->link;
    pf_batch first, second;
    if (!message && pf_batch_halve(batch, &first, &second)) {
        send_batch(c, &first, pf_grpc_encode(c->encoder, &first));
        send_batch(c, &second, pf_grpc_encode(c->encoder, &second));
        return;
    }
    if (batch->n_verdicts + batch->n_proposals > 0) link->n_unanswered++; /* opens and closes may go unanswered */
    link->sent_ns = pf_now_ns();
    pf_link_send(link, message);
}

static pf_status client_submit(pf_peer *peer, const pf_batch *batch)
{
    client *c = (client *)peer;
    pf_link *link = &c->link;
    pthread_mutex_lock(&link->lock);
    pf_status status = check_link(link, batch);
    if (status == PF_OK) {
        grpc_byte_buffer *message = pf_grpc_encode(c->encoder, batch);
        const int32_t n_parts = message ? 0 : count_messages(c, batch);
        if (!message && (n_parts == 0 || n_parts > PF_LINK_OUTBOUND - link->out_count))
            status = PF_LIMIT;
        else
            send_batch(c, batch, message);
    }
    pthread_mutex_unlock(&link->lock);
    return status;
}

/* The bytes of the next answer. PF_CANCELLED: not yet.  PF_UNAVAILABLE: no more on this stream.
 *
 * The next read is started here, by a caller that is idle, and not when the previous answer arrives: gRPC sends a flow-control
 * update in a packet of its own at each read, which would delay the next request. */
static pf_status take_answer(pf_link *link, grpc_byte_buffer **answer, pf_error *error)
{
    pf_status status = PF_CANCELLED;
    pthread_mutex_lock(&link->lock);
    if (link->answer) {
        status = PF_OK;
        *answer = link->answer;
        link->answer = NULL;
    } else if (link->lost || link->state != PF_LINK_UP) {
        status = pf_fail(error, PF_UNAVAILABLE, "%s", link->why.text);
        link->lost = false;
    } else if (!link->reading) {
        pf_link_read(link);
    }
    pthread_mutex_unlock(&link->lock);
    return status;
}

/* Polls at least once, whatever the deadline. A caller that never waits would otherwise learn only from the back of
 * the poller, 50 ms later, that its batches were sent, and a fast target fills the queue in two. */
static pf_status await_answer(pf_link *link, uint64_t deadline_ns, grpc_byte_buffer **answer, pf_error *error)
{
    const uint64_t spin_until_ns = pf_now_ns() + PF_RPC_SPIN_NS;
    for (bool last = false;; last = pf_now_ns() >= deadline_ns) {
        const pf_status status = take_answer(link, answer, error);
        if (status != PF_CANCELLED || last) return status;
        pf_poller_wait(&link->poller, spin_until_ns, deadline_ns);
    }
}

/* PF_FORMAT: the answer has parts that only a client, or a server of the other service, may send. */
static pf_status check_direction(const client *c, const pf_batch *answer, pf_error *error)
{
    const bool drafter = c->service == PF_SERVICE_DRAFTER;
    if (drafter ? answer->n_verdicts : answer->n_proposals)
        return pf_fail(error, PF_FORMAT,
                       drafter ? "a Drafter takes verdicts, it makes none"
                               : "a Verifier takes proposals, it makes none");
    if (answer->n_opens || answer->n_closes)
        return pf_fail(error, PF_FORMAT, "opens and closes go from client to server only");
    return PF_OK;
}

static pf_status decode_answer(const client *c, grpc_byte_buffer *answer, const pf_batch **out, pf_error *error)
{
    const pf_batch *batch;
    grpc_slice hold;
    PF_TRY(pf_grpc_bytes(answer, &hold, error));
    pf_codec_give_back(c->decoder); /* messages of a conforming peer fit in what is kept */
    const pf_status status =
        pf_codec_decode_batch(c->decoder, GRPC_SLICE_START_PTR(hold), GRPC_SLICE_LENGTH(hold), &batch, error);
    grpc_slice_unref(hold);
    PF_TRY(status);
    PF_TRY(check_direction(c, batch, error));
    *out = batch;
    return PF_OK;
}

static pf_status on_protocol_violation(pf_link *link, const char *text, pf_error *error)
{
    char what[sizeof((pf_error *)NULL)->text];
    snprintf(what, sizeof what, "protocol violation: %s", text);
    pthread_mutex_lock(&link->lock);
    const pf_status status = cancel_stream(link, what);
    if (error) *error = link->why;
    pthread_mutex_unlock(&link->lock);
    return status;
}

static pf_status client_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    client *c = (client *)peer;
    grpc_byte_buffer *answer = NULL;
    PF_TRY(await_answer(&c->link, deadline_ns, &answer, error));
    pf_error cause;
    const pf_status status = decode_answer(c, answer, out, &cause);
    grpc_byte_buffer_destroy(answer);
    return status == PF_OK ? PF_OK : on_protocol_violation(&c->link, cause.text, error);
}

static void client_why(pf_peer *peer, pf_error *out)
{
    pf_link *link = link_of(peer);
    pthread_mutex_lock(&link->lock);
    *out = link->why;
    pthread_mutex_unlock(&link->lock);
}

static pf_status client_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    pf_link *link = link_of(peer);
    pthread_mutex_lock(&link->lock);
    pf_status status = PF_OK;
    if (link->known)
        *out = link->info;
    else
        status = pf_fail(error, PF_UNAVAILABLE, "%s", link->why.text);
    pthread_mutex_unlock(&link->lock);
    return status;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static void free_client(client *c)
{
    pf_codec_destroy(c->encoder);
    pf_codec_destroy(c->decoder);
    free(c);
}

static void client_destroy(pf_peer *peer)
{
    client *c = (client *)peer;
    if (pf_link_stop(&c->link)) free_client(c);
}

static const pf_peer_ops OPS = {
    .submit = client_submit,
    .collect = client_collect,
    .info = client_info,
    .destroy = client_destroy,
    .why = client_why,
};

static void settle(pf_rpc_client_config *config)
{
    /* A required peer may be far away: a round trip of four seconds is slow, and works. */
    if (config->connect_timeout_ns == 0)
        config->connect_timeout_ns = (uint64_t)(config->keep_trying ? 2 : 15) * SECOND_NS;
    if (config->memory_bytes == 0) config->memory_bytes = pf_topology_memory_bytes();
}

static pf_status make_codecs(client *c, const char *address, pf_error *error)
{
    enum { N_BYTES = PF_RPC_DEFAULT_MESSAGE_BYTES };
    pf_status status = pf_codec_create(N_BYTES, 0, &c->encoder);
    if (status == PF_OK) status = pf_codec_create(N_BYTES, 0, &c->decoder);
    return status == PF_OK ? PF_OK : pf_fail(error, status, "%s: no memory for messages of %d bytes", address, N_BYTES);
}

static pf_status connect_to(const char *address_text, pf_service service, const pf_rpc_client_config *config,
                            pf_peer **out, pf_error *error)
{
    pf_address address;
    PF_TRY(pf_address_parse(address_text, &address, error));
    client *c = calloc(1, sizeof *c);
    if (!c) return pf_fail(error, PF_NOMEM, "%s: no memory for a connection", address_text);
    c->head.ops = &OPS;
    if (config) c->link.config = *config;
    settle(&c->link.config);
    c->service = service;
    c->link.stream_method = pf_services[service].stream_method;
    c->link.info_method = pf_services[service].info_method;
    c->link.one_model = service == PF_SERVICE_VERIFIER; /* any draft may continue; a text is one target's */
    pf_status status = make_codecs(c, address_text, error);
    if (status == PF_OK) status = pf_link_start(&c->link, &address, error);
    if (status != PF_OK) {
        free_client(c);
        return status;
    }
    status = pf_link_connect(&c->link, error);
    if (status == PF_OK || (c->link.config.keep_trying && (status == PF_UNAVAILABLE || status == PF_FORMAT)))
        *out = &c->head;
    else
        client_destroy(&c->head);
    return status;
}

pf_status pf_rpc_drafter_connect(const char *address, const pf_rpc_client_config *config, pf_peer **out,
                                 pf_error *error)
{
    return connect_to(address, PF_SERVICE_DRAFTER, config, out, error);
}

pf_status pf_rpc_verifier_connect(const char *address, const pf_rpc_client_config *config, pf_peer **out,
                                  pf_error *error)
{
    return connect_to(address, PF_SERVICE_VERIFIER, config, out, error);
}

void pf_rpc_client_get_stats(pf_peer *peer, pf_rpc_client_stats *out)
{
    pf_link *link = link_of(peer);
    pthread_mutex_lock(&link->lock);
    *out = link->stats;
    pthread_mutex_unlock(&link->lock);
}
