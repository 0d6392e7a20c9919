/* An engine as a server: its role, behind a listening socket, until told to stop. */
#include <sys/random.h>

#include "base/team.h"
#include "engine/roles.h"
#include "engine/versioned.h"
#include "rpc/server/server.h"

static pf_status draw_secret(uint64_t *out, pf_error *error)
{
    uint64_t secret = 0;
    while (secret == 0) /* 0 stands for none */
        if (getrandom(&secret, sizeof secret, 0) != (ssize_t)sizeof secret)
            return pf_fail(error, PF_INTERNAL, "the system gives no random bytes");
    *out = secret;
    return PF_OK;
}

static pf_status make_role(pf_engine *engine, const pf_serve_options *options, pf_peer **out, pf_error *error)
{
    pf_served_role served = { .grace_ns = PF_SERVER_GRACE_NS };
    PF_TRY(draw_secret(&served.seed, error));
    const pf_role_options playing = { .size = sizeof playing,
                                      .simulate_ns = options->simulate_ns,
                                      .simulate_rows = options->simulate_rows,
                                      .stop = options->stop };
    return options->role == PF_ROLE_DRAFTER ? pf_engine_make_drafter(engine, &playing, &served, out, error)
                                            : pf_engine_make_verifier(engine, &playing, &served, out, error);
}

typedef struct {
    const pf_server_config *config;
    pf_server **out;
    pf_error *error;
    pf_status status;
} listening;

static void listen_there(void *arg)
{
    listening *l = arg;
    l->status = pf_server_create(l->config, l->out, l->error);
}

pf_status pf_engine_serve(pf_engine *engine, const pf_serve_options *given, pf_error *error)
{
    pf_serve_options copy, *const options = &copy;
    PF_TRY(pf_versioned_copy("pf_serve_options", given, options, sizeof copy, error));
    if (!options->address) return pf_fail(error, PF_INVALID, "pf_serve_options.address is NULL, expected an address");
    pf_peer *peer;
    PF_TRY(make_role(engine, options, &peer, error));
    const pf_server_config config = {
        .address = options->address,
        .drafter = options->role == PF_ROLE_DRAFTER ? peer : NULL,
        .verifier = options->role == PF_ROLE_VERIFIER ? peer : NULL,
        .memory_bytes = pf_engine_memory_left(engine),
        .log = options->log,
        .log_user = options->user,
    };
    pf_server *server = NULL;
    listening l = { &config, &server, error, PF_INTERNAL };
    pf_team_run_unpinned(listen_there, &l); /* gRPC's threads begin there, and this one may be a pinned member */
    pf_status status = l.status;
    if (status == PF_OK && (!options->ready || options->ready(options->user, pf_server_address(server))))
        status = pf_server_run(server, options->stop, error);
    pf_server_destroy(server);
    pf_peer_destroy(peer);
    pf_engine_give_role_back(engine);
    return status;
}
