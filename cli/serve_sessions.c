/* Sessions over a hub. */
#include "cli/serve_sessions.h"

#include <stdlib.h>

static pf_status make_hub(const pf_options *options, const pf_setup *setup, int32_t n, pf_metrics *metrics,
                          pf_hub **out, pf_error *error)
{
    const pf_hub_options make = { .size = sizeof make,
                                  .verifier = setup->verifier,
                                  .drafter = setup->drafter,
                                  .draft_worker = options->draft_worker,
                                  .max_sequences = n,
                                  .max_waiting = 2 * n, /* each place has a session with a drafter and one without */
                                  .warn = pf_setup_warn,
                                  .metrics = metrics };
    return pf_hub_create(&make, out, error);
}

/* A session with peers of its own. */
static pf_status add_session(const pf_setup *setup, pf_serve_sessions *s, bool drafts, pf_session **out,
                             pf_error *error)
{
    pf_setup parts = { .max_context = setup->max_context };
    PF_TRY(pf_hub_verifier(s->hub, &parts.verifier, error));
    s->peers[s->n_peers++] = parts.verifier;
    if (drafts) {
        PF_TRY(pf_hub_drafter(s->hub, &parts.drafter, error));
        s->peers[s->n_peers++] = parts.drafter;
    }
    return pf_setup_make_session(&parts, drafts, out, error);
}

static pf_status open_many(const pf_options *options, const pf_setup *setup, pf_metrics *metrics, pf_serve_sessions *s,
                           pf_error *error)
{
    const bool drafts = setup->drafter || options->draft_worker;
    PF_TRY(make_hub(options, setup, s->n, metrics, &s->hub, error));
    for (int32_t i = 0; i < s->n; i++) {
        PF_TRY(add_session(setup, s, drafts, &s->sessions[i], error));
        if (drafts) PF_TRY(add_session(setup, s, false, &s->plain[i], error));
    }
    return PF_OK;
}

static pf_status open_one(const pf_setup *setup, pf_serve_sessions *s, pf_error *error)
{
    PF_TRY(pf_setup_make_session(setup, true, &s->sessions[0], error));
    return setup->drafter ? pf_setup_make_session(setup, false, &s->plain[0], error) : PF_OK;
}

pf_status pf_serve_sessions_open(const pf_options *options, const pf_setup *setup, int32_t n, pf_metrics *metrics,
                                 pf_serve_sessions *out, pf_error *error)
{
    enum { PEERS_EACH = 3 };
    const bool is_here = options->verifier == NULL;
    const bool drafts = setup->drafter || options->draft_worker;
    *out = (pf_serve_sessions){ .n = is_here ? n : 1 };
    const size_t n_sessions = (size_t)out->n;
    out->sessions = calloc(n_sessions, sizeof *out->sessions);
    out->plain = drafts ? calloc(n_sessions, sizeof *out->plain) : NULL;
    out->peers = calloc(PEERS_EACH * n_sessions, sizeof *out->peers);
    if (!out->sessions || !out->peers || (drafts && !out->plain))
        return pf_fail(error, PF_NOMEM, "no memory for %d sessions", out->n);
    return is_here ? open_many(options, setup, metrics, out, error) : open_one(setup, out, error);
}

void pf_serve_sessions_close(pf_serve_sessions *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        if (s->sessions) pf_session_destroy(s->sessions[i]);
        if (s->plain) pf_session_destroy(s->plain[i]);
    }
    while (s->n_peers > 0) pf_peer_destroy(s->peers[--s->n_peers]);
    pf_hub_destroy(s->hub);
    free(s->sessions);
    free(s->plain);
    free(s->peers);
    *s = (pf_serve_sessions){ 0 };
}
