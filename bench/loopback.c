/* Runs a server in this process with a drafter behind it that proposes immediately. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/roundtrip.h"
#include "rpc/client/client.h"
#include "rpc/server/server.h"

/* ---- the drafter ------------------------------------------------------------------------------------------------ */

/* Answers every verdict with a proposal for the next round, of as many tokens as the latest open allows. */
typedef struct {
    pf_peer peer;
    int32_t draft_len;
    pf_proposal proposals[PF_MAX_BATCH_SEQUENCES];
    pf_batch answer;
    bool collected;
} echo;

static const int32_t echo_tokens[PF_MAX_DRAFT_TOKENS];

static pf_status echo_submit(pf_peer *peer, const pf_batch *batch)
{
    echo *e = (echo *)peer;
    e->answer = (pf_batch){ .proposals = e->proposals };
    e->collected = false;
    if (batch->n_opens > 0) e->draft_len = batch->opens[batch->n_opens - 1].max_draft;
    for (int32_t i = 0; i < batch->n_verdicts; i++) {
        const pf_verdict *v = &batch->verdicts[i];
        e->proposals[e->answer.n_proposals++] = (pf_proposal){
            .sequence = v->sequence,
            .incarnation = v->incarnation,
            .round = v->round + 1,
            .base = v->base + v->n_tokens,
            .tokens = echo_tokens,
            .n_tokens = e->draft_len,
        };
    }
    return PF_OK;
}

static pf_status echo_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    (void)deadline_ns;
    echo *e = (echo *)peer;
    (void)error;
    if (e->answer.n_proposals == 0 || e->collected) return PF_CANCELLED;
    e->collected = true;
    *out = &e->answer;
    return PF_OK;
}

static pf_status echo_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)peer;
    (void)error;
    *out = (pf_model_info){
        .protocol_version = PF_PROTOCOL_VERSION,
        .model_id = "loopback",
        .vocab_size = 1,
        .max_context = PF_MAX_PROMPT_TOKENS,
        .max_sequences = PF_MAX_BATCH_SEQUENCES,
        .max_draft = PF_MAX_DRAFT_TOKENS,
        .methods = 1u << PF_METHOD_GREEDY,
    };
    return PF_OK;
}

static void echo_destroy(pf_peer *peer)
{
    (void)peer; /* part of the loopback */
}

static const pf_peer_ops echo_ops = {
    .submit = echo_submit, .collect = echo_collect, .info = echo_info, .destroy = echo_destroy
};

/* ---- the server ------------------------------------------------------------------------------------------------- */

#define DIRECTORY_NAME "/pilotfish-XXXXXX"
#define SOCKET_NAME    "/s"

/* The size of a socket path with its NUL, and what remains of it for the temporary directory. */
enum {
    SOCKET_BYTES = sizeof((struct sockaddr_un){ 0 }.sun_path),
    MAX_PARENT_BYTES = SOCKET_BYTES - sizeof DIRECTORY_NAME SOCKET_NAME,
};

struct pf_loopback {
    echo drafter;
    pf_server *server;
    pthread_t thread;
    bool is_running;
    pf_peer *client;
    char directory[SOCKET_BYTES];
};

static void *serve(void *arg)
{
    pf_loopback *loopback = arg;
    (void)!pf_server_run(loopback->server, NULL, NULL);
    return NULL;
}

static pf_status open_parts(pf_loopback *l, pf_error *error)
{
    const char *temporary = getenv("TMPDIR"), *parent = temporary && *temporary ? temporary : "/tmp";
    char address[sizeof "unix:" + SOCKET_BYTES];
    if (strlen(parent) > MAX_PARENT_BYTES)
        return pf_fail(error, PF_UNAVAILABLE,
                       "TMPDIR is %.200s, %zu bytes, expected at most %d: a socket's path is short", parent,
                       strlen(parent), MAX_PARENT_BYTES);
    snprintf(l->directory, sizeof l->directory, "%s" DIRECTORY_NAME, parent);
    if (!mkdtemp(l->directory)) {
        l->directory[0] = '\0';
        return pf_fail(error, PF_UNAVAILABLE, "%s: no directory for the socket can be made there: %s", parent,
                       strerror(errno));
    }
    snprintf(address, sizeof address, "unix:%s" SOCKET_NAME, l->directory);
    const pf_server_config config = { .address = address, .drafter = &l->drafter.peer };
    PF_TRY(pf_server_create(&config, &l->server, error));
    const int failure = pthread_create(&l->thread, NULL, serve, l);
    if (failure) return pf_fail(error, PF_NOMEM, "no thread for the server: %s", strerror(failure));
    l->is_running = true;
    return pf_rpc_drafter_connect(address, NULL, &l->client, error);
}

pf_status pf_loopback_open(pf_loopback **out, pf_error *error)
{
    pf_loopback *loopback = calloc(1, sizeof *loopback);
    if (!loopback) return pf_fail(error, PF_NOMEM, "no memory for the loopback");
    loopback->drafter.peer.ops = &echo_ops;
    const pf_status status = open_parts(loopback, error);
    if (status != PF_OK)
        pf_loopback_close(loopback);
    else
        *out = loopback;
    return status;
}

void pf_loopback_close(pf_loopback *loopback)
{
    if (!loopback) return;
    pf_peer_destroy(loopback->client);
    if (loopback->is_running) {
        pf_server_stop(loopback->server);
        pthread_join(loopback->thread, NULL);
    }
    pf_server_destroy(loopback->server);
    if (loopback->directory[0]) {
        char path[SOCKET_BYTES];
        snprintf(path, sizeof path, "%s" SOCKET_NAME, loopback->directory);
        unlink(path);
        rmdir(loopback->directory);
    }
    free(loopback);
}

pf_peer *pf_loopback_peer(pf_loopback *loopback)
{
    return loopback->client;
}

const char *pf_loopback_directory(const pf_loopback *loopback)
{
    return loopback->directory;
}
