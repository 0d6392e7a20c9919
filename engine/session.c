/* Holds what the requests of a session share, one at a time: two peers with vocabularies that fit, and the memory of a
 * sequence. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/generation.h"
#include "engine/roles.h"
#include "engine/run.h"
#include "engine/versioned.h"

static const uint64_t VERDICT_LIMIT_NS = 60000000000;
static const uint64_t RETURN_LIMIT_NS = 5000000000;

void pf_session_warn(const pf_session *session, const char *sentence)
{
    if (session->options.warn) session->options.warn(session->options.warn_user, sentence);
}

void pf_session_set_clock(pf_session *session, uint64_t *clock_ns)
{
    session->clock_ns = clock_ns;
}

uint64_t pf_session_now_ns(const pf_session *session)
{
    return pf_clock_now_ns(session->clock_ns);
}

void pf_session_pause(const pf_session *session, uint64_t ns)
{
    pf_clock_wait_until(session->clock_ns, pf_session_now_ns(session) + ns);
}

/* ---- drafter ------------------------------------------------------------------------------------------------------ */

pf_status pf_session_accept_drafter(pf_session *session, pf_error *error)
{
    pf_error warning, why;
    const pf_status status =
        pf_session_check_vocabularies(&session->drafter_info, &session->verifier_info, &session->match, &warning, &why);
    if (status != PF_OK && !session->options.drafter->is_far) return pf_fail(error, status, "%s", why.text);
    session->drafter_is_unfit = status != PF_OK;
    if (status != PF_OK) (void)pf_fail(&warning, status, "%s; decoding goes on without it", why.text);
    if (warning.text[0] != '\0') pf_session_warn(session, warning.text);
    return PF_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static pf_status meet_drafter(pf_session *session, pf_error *error)
{
    pf_error why = { 0 };
    const pf_status status = pf_peer_info(session->options.drafter, &session->drafter_info, &why);
    session->drafter_is_known = status == PF_OK;
    if (status == PF_OK) return pf_session_accept_drafter(session, error);
    if (!session->options.drafter->is_far) return pf_fail(error, status, "%s", why.text);
    pf_session_warn(session, why.text);
    pf_peer_why(session->options.drafter, &why); /* the kind of trouble that it tells of again, if it stays */
    session->drafter_trouble = why.status;
    return PF_OK;
}

static pf_status meet_peers(pf_session *session, pf_error *error)
{
    PF_TRY(pf_peer_info(session->options.verifier, &session->verifier_info, error));
    return session->options.drafter ? meet_drafter(session, error) : PF_OK;
}

/* A far verifier has room by its own options. */
static void choose_context(pf_session *session)
{
    const int32_t most = session->verifier_info.max_context;
    if (session->options.max_context == 0)
        session->options.max_context = most > 0 && most < PF_MAX_PROMPT_TOKENS ? most : PF_MAX_PROMPT_TOKENS;
}

static pf_status make_session_memory(pf_session *session, pf_error *error)
{
    session->committed = calloc((size_t)session->options.max_context, sizeof *session->committed);
    if (session->options.drafter)
        session->as_drafter = calloc((size_t)session->options.max_context, sizeof *session->as_drafter);
    if (!session->committed || (session->options.drafter && !session->as_drafter) ||
        pf_stream_owner_create(1, &session->to_verifier) != PF_OK ||
        pf_stream_owner_create(1, &session->to_drafter) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for a session of %d tokens", session->options.max_context);
    return PF_OK;
}

static pf_status open_session(pf_session *session, pf_error *error)
{
    if (session->options.verdict_limit_ns == 0) session->options.verdict_limit_ns = VERDICT_LIMIT_NS;
    if (session->options.return_limit_ns == 0) session->options.return_limit_ns = RETURN_LIMIT_NS;
    pf_draft_wait_init(&session->draft_wait);
    PF_TRY(meet_peers(session, error));
    choose_context(session);
    return make_session_memory(session, error);
}

pf_status pf_session_create(const pf_session_options *given, pf_session **out, pf_error *error)
{
    pf_session_options options;
    PF_TRY(pf_versioned_copy("pf_session_options", given, &options, sizeof options, error));
    if (!options.verifier || options.max_context < 0 || options.max_context > PF_MAX_PROMPT_TOKENS)
        return pf_fail(error, PF_INVALID,
                       "a session needs a verifier, and a context of 1 to %d tokens or 0 for the verifier's, not %d",
                       PF_MAX_PROMPT_TOKENS, options.max_context);
    pf_session *session = calloc(1, sizeof *session);
    if (!session) return pf_fail(error, PF_NOMEM, "no memory for a session");
    session->options = options;
    const pf_status status = open_session(session, error);
    if (status != PF_OK) {
        pf_session_destroy(session);
        return status;
    }
    if (options.drafter) pf_hub_pair(options.verifier, options.drafter);
    *out = session;
    return PF_OK;
}

void pf_session_destroy(pf_session *session)
{
    if (!session) return;
    pf_queue_destroy(session->queue);
    pf_session_drop_sequence(session);
    pf_stream_owner_destroy(session->to_drafter);
    pf_stream_owner_destroy(session->to_verifier);
    free(session->as_drafter);
    free(session->committed);
    free(session);
}
