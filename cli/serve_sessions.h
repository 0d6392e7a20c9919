/*
 * The sessions of an HTTP server: many over one hub, so that texts are generated together; or one, where the verifier is behind an
 * address.
 */
#ifndef PF_CLI_SERVE_SESSIONS_H
#define PF_CLI_SERVE_SESSIONS_H

#include "cli/setup.h"

typedef struct {
    pf_hub *hub; /* NULL: one session on the peers themselves */
    int32_t n;
    pf_session **sessions; /* [n] with the drafter */
    pf_session **plain;    /* [n] without it; NULL: there is no drafter */
    pf_peer **peers;       /* [n_peers] of the hub */
    int32_t n_peers;
} pf_serve_sessions;

/* n: at most; a far verifier has one. The hub counts in the metrics, which are borrowed. Errors as pf_hub_create and pf_session_create. The caller ends it with
 * pf_serve_sessions_close, whatever is returned, before the setup. */
PF_MUST_USE pf_status pf_serve_sessions_open(const pf_options *options, const pf_setup *setup, int32_t n,
                                             pf_metrics *metrics, pf_serve_sessions *out, pf_error *error);
void pf_serve_sessions_close(pf_serve_sessions *sessions); /* zeroed is fine */

#endif
