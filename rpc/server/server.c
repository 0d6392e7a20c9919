/* Creates a server, runs it, shuts it down and destroys it. */
#include "rpc/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "rpc/server/server_internal.h"

enum {
    DEFAULT_STREAMS = 256,
    /* How long the computing thread may not poll until the back of the poller does. Longer than a round of small
     * models: each change of the polling thread costs 5 to 20 us. */
    FRONT_IDLE_NS = 10 * 1000 * 1000,
    DRAIN_TIMEOUT_NS = 200 * 1000 * 1000, /* until clients of cancelled calls that do not read are disconnected */
};

/* A sequence that is idle for so long may be evicted for another. */
static const uint64_t SEQUENCE_IDLE_NS = UINT64_C(60) * 1000 * 1000 * 1000;

/* Without work, until the memory of large messages is given back: soon enough for other processes, and not after each
 * message of many. */
static const uint64_t QUIET_NS = 2000u * 1000 * 1000;

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void give_back(pf_server *server)
{
    for (int service = 0; service < PF_N_SERVICES; service++)
        if (server->codec[service]) pf_codec_give_back(server->codec[service]);
}

/* Waits until there is work, or for 50 ms; does not sleep directly after the last work. */
static void wait_for_work(pf_server *server, uint64_t last_work_ns)
{
    if (pf_now_ns() - last_work_ns >= QUIET_NS) give_back(server);
    pf_poller_wait(&server->poller, last_work_ns + PF_RPC_SPIN_NS, UINT64_MAX);
}

/* Handles what has arrived while the peer worked ahead, and does not wait. When it did. */
static uint64_t look_for_work(pf_server *server)
{
    const uint64_t now_ns = pf_now_ns();
    pf_poller_wait(&server->poller, now_ns, now_ns);
    return now_ns;
}

static int32_t open_sequences(const pf_server *server)
{
    int32_t n = 0;
    for (int service = 0; service < PF_N_SERVICES; service++)
        if (server->dispatch[service]) n += pf_dispatch_open_sequences(server->dispatch[service]);
    return n;
}

/* Whether gRPC and this server have ended all calls: the queue may hold events of calls that are finished in gRPC, and
 * the handler of one may start another operation, at which gRPC aborts once the queue is shut down. */
static bool is_drained(pf_server *server)
{
    pthread_mutex_lock(&server->lock);
    const bool drained = atomic_load(&server->drained) && server->n_calls == 0;
    pthread_mutex_unlock(&server->lock);
    return drained;
}

/* Watches never end by themselves, and a client that does not read not even when cancelled: gRPC waits until its data
 * is written. */
static void end_calls(pf_server *server, uint64_t *since_ns)
{
    const uint64_t now_ns = pf_now_ns();
    if (*since_ns == 0) *since_ns = now_ns;
    grpc_server_cancel_all_calls(server->grpc);
    if (server->listener && now_ns - *since_ns >= DRAIN_TIMEOUT_NS) pf_listener_disconnect_all(server->listener);
}

static void shut_down(pf_server *server, uint64_t grace_ns, pf_error *error)
{
    if (server->shut) return;
    server->shut = true;
    pf_server_set_health(server, PF_HEALTH_NOT_SERVING);
    if (server->listener) pf_listener_close(server->listener);
    grpc_server_shutdown_and_notify(server->grpc, server->poller.cq, &server->shutdown_tag);

    if (server->until_ns == 0) server->until_ns = pf_now_ns() + grace_ns;
    uint64_t worked_ns = 0, ended_ns = 0;
    for (;;) {
        const bool drained = is_drained(server); /* first: messages that arrived before are computed */
        if (pf_server_compute(server, error)) {
            worked_ns = pf_now_ns();
            continue;
        }
        if (drained) return;
        if (open_sequences(server) == 0 || pf_server_is_overdue(server) || server->failed != PF_OK)
            end_calls(server, &ended_ns);
        wait_for_work(server, worked_ns);
    }
}

pf_status pf_server_run(pf_server *server, const volatile bool *stop, pf_error *error)
{
    if (server->shut) return pf_fail(error, PF_INVALID, "the server has been stopped");
    pf_server_set_health(server, PF_HEALTH_SERVING);
    server->stop_flag = stop;
    uint64_t worked_ns = pf_now_ns();
    while (!pf_server_is_stopping(server) && server->failed == PF_OK) {
        if (pf_server_compute(server, error))
            worked_ns = pf_now_ns();
        else if (pf_server_work_ahead(server))
            worked_ns = look_for_work(server);
        else
            wait_for_work(server, worked_ns);
    }
    shut_down(server, server->config.grace_ns, error);
    return server->failed;
}

void pf_server_stop(pf_server *server)
{
    atomic_store(&server->stop, true);
}

/* ---- making and ending ------------------------------------------------------------------------------------------- */

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* on failure the server takes fewer clients */
}

/* As many connections as the budget of gRPC has buffers for. */
static int32_t default_connections(const pf_server_config *config, const pf_message_budget *room)
{
    enum { CONNECTION_BYTES = 16 << 10 }; /* with a call or two */
    const size_t held = room->grpc_bytes / CONNECTION_BYTES, calls = 2 * (size_t)pf_server_max_calls(config);
    const int32_t wanted = (int32_t)(held < calls ? held : calls);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)wanted <= limit.rlim_cur / 4 * 3) return wanted;
    return limit.rlim_cur < 4 ? 1 : (int32_t)(limit.rlim_cur / 4 * 3);
}

static grpc_server *make_grpc_server(const pf_server_config *config, const pf_message_budget *room)
{
    const int max_bytes = (int)room->message_bytes;
    grpc_resource_quota *quota = pf_grpc_quota(room->inbound_bytes + room->grpc_bytes);
    grpc_arg args[] = {
        pf_grpc_int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, max_bytes),
        pf_grpc_int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, max_bytes),
        pf_grpc_int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, pf_server_max_calls(config)),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PF_RPC_KEEPALIVE_MS),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PF_RPC_KEEPALIVE_TIMEOUT_MS),
        pf_grpc_int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        pf_grpc_int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PF_RPC_KEEPALIVE_FLOOR_MS),
        pf_grpc_int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        pf_grpc_int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
        pf_grpc_quota_arg(quota),
    };
    const grpc_channel_args all = { .num_args = sizeof args / sizeof *args, .args = args };
    grpc_server *server = grpc_server_create(&all, NULL);
    grpc_resource_quota_unref(quota); /* the server has its own reference */
    return server;
}

static pf_status start_listening(pf_server *server, pf_error *error)
{
    const pf_address *address = &server->address;
    pf_sockets sockets;
    PF_TRY(pf_sockets_listen(address, &sockets, error));
    pf_sockets_print(&sockets, address, server->actual, sizeof server->actual);
    const pf_listener_config config = { .server = server->grpc,
                                        .poller = &server->poller,
                                        .max_connections = server->config.max_connections,
                                        .max_calls = 2 * pf_server_max_calls(&server->config),
                                        .max_finished = pf_server_max_calls(&server->config) / 2,
                                        .max_unattributed_bytes = server->room.unattributed_bytes,
                                        .preface_timeout_ns = server->config.preface_timeout_ns,
                                        .log = server->config.log,
                                        .log_user = server->config.log_user };
    pthread_mutex_lock(&server->lock); /* a call may arrive before it returns */
    const pf_status status = pf_listener_open(&config, &sockets, &server->listener, error);
    pthread_mutex_unlock(&server->lock);
    if (status != PF_OK) pf_sockets_close(&sockets);
    return status;
}

static pf_status encode_info(const pf_model_info *info, pf_encoded_info *out)
{
    return pf_codec_encode_info(info, out->bytes, sizeof out->bytes, &out->n_bytes);
}

static pf_status add_service(pf_server *server, pf_service service, pf_peer *peer, pf_error *error)
{
    if (!peer) return PF_OK;
    pf_model_info info;
    PF_TRY(pf_peer_info(peer, &info, error));
    pf_status status = encode_info(&info, &server->info[service][true]);
    info.n_vocab_hashes = 0;
    if (status == PF_OK) status = encode_info(&info, &server->info[service][false]);
    if (status != PF_OK) return pf_fail(error, status, "the model's own description cannot be encoded");
    status = pf_codec_create(server->room.message_bytes, pf_model_ids(&info), &server->codec[service]);
    if (status == PF_OK)
        status = pf_dispatch_create(service, peer, info.max_sequences, SEQUENCE_IDLE_NS, pf_server_send_batch, server,
                                    &server->dispatch[service]);
    if (status == PF_OK) status = pf_server_prepare(server, service, pf_model_ids(&info));
    if (status != PF_OK) return pf_fail(error, status, "no room for a server of %d sequences", info.max_sequences);
    if (!server->config.metrics) return PF_OK;
    PF_TRY(pf_traffic_create(server->config.metrics, service, info.model_id, &server->traffic[service], error));
    pf_dispatch_count_in(server->dispatch[service], server->traffic[service]);
    return pf_traffic_name_drafters(server->traffic[service], server->config.metrics, info.model_id, &info, error);
}

static void log_if_memory_is_scarce(const pf_server_config *config, const pf_message_budget *room)
{
    if (!config->log || !room->is_scarce) return;
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "little memory is left: messages of at most %zu KiB are taken, and %zu KiB of them may wait",
             room->message_bytes >> 10, room->inbound_bytes / 2 >> 10);
    config->log(config->log_user, sentence);
}

static pf_status start(pf_server *server, pf_error *error)
{
    PF_TRY(add_service(server, PF_SERVICE_DRAFTER, server->config.drafter, error));
    PF_TRY(add_service(server, PF_SERVICE_VERIFIER, server->config.verifier, error));
    raise_file_limit();
    if (server->config.max_connections == 0)
        server->config.max_connections = default_connections(&server->config, &server->room);
    const pf_poller_config polling = {
        .handle = pf_server_on_event, .look = pf_server_send_heartbeats, .user = server, .front_idle_ns = FRONT_IDLE_NS
    };
    if (!pf_poller_start(&server->poller, &polling))
        return pf_fail(error, PF_NOMEM, "the server's thread cannot be started");
    server->grpc = make_grpc_server(&server->config, &server->room);
    grpc_server_register_completion_queue(server->grpc, server->poller.cq, NULL);
    grpc_server_start(server->grpc);
    pf_server_accept_call(server);
    PF_TRY(start_listening(server, error));
    log_if_memory_is_scarce(&server->config, &server->room);
    return PF_OK;
}

/* The size of an open that fills the context, or of a proposal with all its distributions: it must fit in a message. */
static size_t needed_bytes(const pf_model_info *info)
{
    enum { PROBABILITY_BYTES = 5, TOKEN_BYTES = 64, REST_BYTES = 4096, LEAST_BYTES = 64 << 10 };
    size_t id_bytes = 1;
    for (int32_t left = pf_model_ids(info) - 1; left >= 128; left /= 128) id_bytes++;
    const size_t open = (size_t)info->max_context * id_bytes;
    const size_t distribution = (size_t)info->max_declared * (id_bytes + PROBABILITY_BYTES) + TOKEN_BYTES;
    const size_t proposal = (size_t)info->max_draft * distribution;
    const size_t needed = (open > proposal ? open : proposal) + REST_BYTES;
    return needed > LEAST_BYTES ? needed : LEAST_BYTES;
}

static pf_status choose_room(const pf_server_config *config, pf_message_budget *room, pf_error *error)
{
    pf_peer *const peers[] = { config->drafter, config->verifier };
    size_t needed = 0;
    int32_t n_peers = 0;
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        if (!peers[i]) continue;
        pf_model_info info;
        PF_TRY(pf_peer_info(peers[i], &info, error));
        if (needed_bytes(&info) > needed) needed = needed_bytes(&info);
        n_peers++;
    }
    return pf_message_budget_choose(config->max_message_bytes, needed, config->memory_bytes, n_peers, room, error);
}

static pf_status settle(pf_server_config *config, pf_message_budget *room, pf_error *error)
{
    if (!config->drafter && !config->verifier) return pf_fail(error, PF_INVALID, "a server without a peer to serve");
    if (config->max_message_bytes == 0) config->max_message_bytes = PF_RPC_DEFAULT_MESSAGE_BYTES;
    if (config->max_streams == 0) config->max_streams = DEFAULT_STREAMS;
    if (config->grace_ns == 0) config->grace_ns = PF_SERVER_GRACE_NS;
    if (config->preface_timeout_ns == 0) config->preface_timeout_ns = UINT64_C(5) * 1000 * 1000 * 1000;
    if (config->heartbeat_ns == 0) config->heartbeat_ns = UINT64_C(10) * 1000 * 1000 * 1000;
    if (config->max_message_bytes > PF_MAX_MESSAGE_BYTES || config->max_streams < 0 || config->max_streams > 1 << 20)
        return pf_fail(error, PF_INVALID,
                       "a server of %d streams and messages of %zu bytes, expected at most %d and %d",
                       config->max_streams, config->max_message_bytes, 1 << 20, PF_MAX_MESSAGE_BYTES);
    if (config->max_connections < 0)
        return pf_fail(error, PF_INVALID, "a server of %d connections, expected 0 or more", config->max_connections);
    return choose_room(config, room, error);
}

/* Ends what `start` made, as far as it got. */
static void dismantle(pf_server *server)
{
    if (server->grpc) {
        shut_down(server, 0, NULL);
        grpc_server_destroy(server->grpc);
        pf_poller_stop(&server->poller);
    }
    pf_listener_destroy(server->listener);
    for (int service = 0; service < PF_N_SERVICES; service++) {
        pf_dispatch_destroy(server->dispatch[service]);
        pf_codec_destroy(server->codec[service]);
        free(server->traffic[service]);
    }
    pf_codec_destroy(server->prepared_codec);
    grpc_shutdown_blocking();
    pthread_mutex_destroy(&server->lock);
    free(server);
}

pf_status pf_server_create(const pf_server_config *config, pf_server **out, pf_error *error)
{
    pf_address address;
    PF_TRY(pf_address_parse(config->address, &address, error));
    pf_server_config settled = *config;
    pf_message_budget room;
    PF_TRY(settle(&settled, &room, error));
    pf_server *server = calloc(1, sizeof *server);
    if (!server) return pf_fail(error, PF_NOMEM, "no memory for a server");
    const pf_status begun = pf_grpc_begin(error);
    if (begun != PF_OK) {
        free(server);
        return begun;
    }
    server->config = settled;
    server->room = room;
    server->address = address;
    server->config.address = server->address.text;
    server->health = PF_HEALTH_NOT_SERVING;
    server->ready_end = &server->ready;
    server->shutdown_tag = (pf_call_tag){ NULL, PF_EV_OVER };
    pthread_mutex_init(&server->lock, NULL);
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
