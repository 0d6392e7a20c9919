/* Far peers, as the command line knows them: an address. */
#include "base/team.h"
#include "engine/versioned.h"
#include "include/pilotfish.h"
#include "rpc/address.h"
#include "rpc/client/client.h"

pf_status pf_check_address(const char *address, bool listens, pf_error *error)
{
    pf_address parsed;
    PF_TRY(pf_address_parse(address, &parsed, error));
    if (listens || parsed.is_unix || parsed.port > 0) return PF_OK;
    return pf_fail(error, PF_INVALID, "%s: port 0 is for --listen alone, expected 1 to 65535", address);
}

typedef pf_status connect_fn(const char *address, const pf_rpc_client_config *config, pf_peer **out, pf_error *error);

typedef struct {
    connect_fn *connect;
    const char *address;
    const pf_rpc_client_config *config;
    pf_peer **out;
    pf_error *error;
    pf_status status;
} attempt;

static void try_once(void *arg)
{
    attempt *a = arg;
    a->status = a->connect(a->address, a->config, a->out, a->error);
}

/* gRPC's threads begin here, and the caller may be a pinned member of a team. */
static pf_status connect_unpinned(attempt a)
{
    pf_team_run_unpinned(try_once, &a);
    return a.status;
}

pf_status pf_connect_drafter(const char *address, const pf_connect_options *given, pf_peer **out, pf_error *error)
{
    pf_connect_options options;
    PF_TRY(pf_versioned_copy("pf_connect_options", given, &options, sizeof options, error));
    const pf_rpc_client_config config = { .keep_trying = true, .cancel = options.cancel };
    pf_peer *peer = NULL;
    const pf_status status =
        connect_unpinned((attempt){ pf_rpc_drafter_connect, address, &config, &peer, error, PF_INTERNAL });
    if (!peer || (status != PF_OK && options.must_answer)) {
        pf_peer_destroy(peer);
        return status;
    }
    peer->is_far = true;
    *out = peer;
    return PF_OK;
}

pf_status pf_connect_verifier(const char *address, const pf_connect_options *given, pf_peer **out, pf_error *error)
{
    pf_connect_options options;
    PF_TRY(pf_versioned_copy("pf_connect_options", given, &options, sizeof options, error));
    const pf_rpc_client_config config = { .cancel = options.cancel };
    pf_peer *peer;
    PF_TRY(connect_unpinned((attempt){ pf_rpc_verifier_connect, address, &config, &peer, error, PF_INTERNAL }));
    peer->is_far = true;
    *out = peer;
    return PF_OK;
}
