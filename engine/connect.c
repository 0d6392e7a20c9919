/* Far peers, as the command line knows them: an address. */
#include "engine/connect.h"

#include "rpc/client.h"

pf_status pf_connect_drafter(const char *address, pf_peer **out, pf_error *error)
{
    /* Nobody there yet is no reason not to begin: generation is plain until somebody is. */
    const pf_rpc_client_config config = { .keep_trying = true };
    return pf_rpc_drafter_connect(address, &config, out, error);
}

pf_status pf_connect_verifier(const char *address, pf_peer **out, pf_error *error)
{
    return pf_rpc_verifier_connect(address, NULL, out, error);
}
