/* What many requests use, one at a time: two peers that speak one vocabulary, and the memory of a sequence. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/run.h"

static const uint64_t VERDICT_LIMIT_NS = 60000000000;
static const uint64_t RETURN_LIMIT_NS = 5000000000;

void pf_session_warn(const pf_session *session, const char *sentence)
{
    if (session->options.warn) session->options.warn(session->options.warn_user, sentence);
}

uint64_t pf_session_now_ns(const pf_session *session)
{
    return pf_clock_now_ns(session->options.clock_ns);
}

void pf_session_pause(const pf_session *session, uint64_t ns)
{
    pf_clock_wait_until(session->options.clock_ns, pf_session_now_ns(session) + ns);
}

static bool is_zero(const uint8_t fingerprint[32])
{
    static const uint8_t zero[32];
    return memcmp(fingerprint, zero, sizeof zero) == 0;
}

pf_status pf_session_check_vocabularies(const pf_model_info *drafter, const pf_model_info *verifier, pf_error *error)
{
    const bool both_named = !is_zero(drafter->vocab_fingerprint) && !is_zero(verifier->vocab_fingerprint);
    const bool same = both_named ? memcmp(drafter->vocab_fingerprint, verifier->vocab_fingerprint, 32) == 0
                                 : drafter->vocab_size == verifier->vocab_size;
    if (same) return PF_OK;
    char d[PF_FINGERPRINT_TEXT_BYTES], v[PF_FINGERPRINT_TEXT_BYTES];
    pf_model_print_fingerprint(drafter, d);
    pf_model_print_fingerprint(verifier, v);
    return pf_fail(
        error, PF_INVALID,
        "drafter %s and verifier %s do not share a vocabulary: %d tokens, fingerprint %s, against %d tokens, "
        "fingerprint %s; both must be one",
        drafter->model_id, verifier->model_id, drafter->vocab_size, d, verifier->vocab_size, v);
}

static pf_status meet_peers(pf_session *session, pf_error *error)
{
    pf_model_info *drafter = &session->drafter_info;
    PF_TRY(pf_peer_info(session->options.verifier, &session->verifier_info, error));
    if (!session->options.drafter) return PF_OK;

    pf_error why = { 0 };
    const pf_status status = pf_peer_info(session->options.drafter, drafter, &why);
    session->drafter_is_known = status == PF_OK;
    if (status == PF_OK) return pf_session_check_vocabularies(drafter, &session->verifier_info, error);
    if (!session->options.drafter_is_far) return pf_fail(error, status, "%s", why.text);
    pf_session_warn(session, why.text);
    pf_peer_why(session->options.drafter, &why); /* the kind of trouble that it tells of again, if it stays */
    session->drafter_trouble = why.status;
    return PF_OK;
}

static pf_status make_session_memory(pf_session *session, pf_error *error)
{
    session->committed = calloc((size_t)session->options.max_context, sizeof *session->committed);
    if (!session->committed || pf_stream_owner_create(1, &session->to_verifier) != PF_OK ||
        pf_stream_owner_create(1, &session->to_drafter) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for a session of %d tokens", session->options.max_context);
    return PF_OK;
}

pf_status pf_session_create(const pf_session_options *options, pf_session **out, pf_error *error)
{
    if (!options->verifier || options->max_context < 1 || options->max_context > PF_MAX_PROMPT_TOKENS)
        return pf_fail(error, PF_INVALID, "a session needs a verifier, and a context of 1 to %d tokens, not %d",
                       PF_MAX_PROMPT_TOKENS, options->max_context);
    pf_session *session = calloc(1, sizeof *session);
    if (!session) return pf_fail(error, PF_NOMEM, "no memory for a session");
    session->options = *options;
    if (options->verdict_limit_ns == 0) session->options.verdict_limit_ns = VERDICT_LIMIT_NS;
    if (options->return_limit_ns == 0) session->options.return_limit_ns = RETURN_LIMIT_NS;
    pf_draft_wait_init(&session->draft_wait);
    pf_status status = make_session_memory(session, error);
    if (status == PF_OK) status = meet_peers(session, error);
    if (status != PF_OK) {
        pf_session_destroy(session);
        return status;
    }
    *out = session;
    return PF_OK;
}

void pf_session_destroy(pf_session *session)
{
    if (!session) return;
    pf_stream_owner_destroy(session->to_drafter);
    pf_stream_owner_destroy(session->to_verifier);
    free(session->committed);
    free(session);
}
