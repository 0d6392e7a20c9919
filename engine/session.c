/* Holds what the requests of a session share, one at a time: two peers with vocabularies that fit, and the memory of a
 * sequence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/generation.h"
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

static bool is_zero(const uint8_t fingerprint[32])
{
    static const uint8_t zero[32];
    return memcmp(fingerprint, zero, sizeof zero) == 0;
}

/* ---- vocabularies ------------------------------------------------------------------------------------------------ */

enum { SHARED_PERCENT = 90, TEXT_BYTES = 40 };

/* A token for people: its text in quotes, cut to fit; "no token"; or "a text that is not known" across the wire. */
static const char *show_token(const pf_model_info *info, int32_t id, char out[TEXT_BYTES])
{
    if (id >= info->vocab_size) return "no token";
    if (!info->texts) return "a text that is not known here";
    size_t n = 0;
    const char *bytes = info->texts->token(info->texts->user, id, &n);
    if (!bytes) return "no token";
    bool all_valid;
    char text[TEXT_BYTES - 2];
    text[pf_utf8_repair(bytes, n < sizeof text ? n : sizeof text - 1, text, sizeof text - 1, &all_valid)] = '\0';
    pf_utf8_make_printable(text, '?');
    snprintf(out, TEXT_BYTES, "\"%s\"", text);
    return out;
}

/* "1 of 4097 ids differs; the first is 4096: no token in the draft, "[PAD]" in the target" */
static void describe_difference(const pf_vocab_match *match, const pf_model_info *drafter,
                                const pf_model_info *verifier, char *out, size_t capacity)
{
    char d[TEXT_BYTES], v[TEXT_BYTES], which[64];
    const int32_t first = match->first_different;
    if (match->block_ids == 1)
        snprintf(which, sizeof which, "the first is %d", first);
    else
        snprintf(which, sizeof which, "the first is one of %d to %d", first, first + (match->block_ids - 1));
    snprintf(out, capacity, "%d of %d ids differ; %s: %s in the draft, %s in the target", match->n_different,
             match->n_ids, which, show_token(drafter, first, d), show_token(verifier, first, v));
}

static bool have_one_fingerprint(const pf_model_info *drafter, const pf_model_info *verifier)
{
    const bool both_named = !is_zero(drafter->vocab_fingerprint) && !is_zero(verifier->vocab_fingerprint);
    return both_named ? memcmp(drafter->vocab_fingerprint, verifier->vocab_fingerprint, 32) == 0
                      : drafter->vocab_size == verifier->vocab_size;
}

static pf_status refuse_unknown(const pf_model_info *drafter, const pf_model_info *verifier, pf_error *error)
{
    char d[PF_FINGERPRINT_TEXT_BYTES], v[PF_FINGERPRINT_TEXT_BYTES];
    pf_model_print_fingerprint(drafter, d);
    pf_model_print_fingerprint(verifier, v);
    return pf_fail(
        error, PF_INVALID,
        "drafter %s and verifier %s do not share a vocabulary, and which ids they share cannot be told: %d tokens, "
        "fingerprint %s, against %d tokens, fingerprint %s",
        drafter->model_id, verifier->model_id, drafter->vocab_size, d, verifier->vocab_size, v);
}

pf_status pf_session_check_vocabularies(const pf_model_info *drafter, const pf_model_info *verifier,
                                        pf_vocab_match *out, pf_error *warning, pf_error *error)
{
    *warning = (pf_error){ 0 };
    pf_vocab_match match = { .first_different = -1 };
    if (!drafter->any_vocabulary && !have_one_fingerprint(drafter, verifier)) {
        if (is_zero(drafter->vocab_fingerprint) || is_zero(verifier->vocab_fingerprint) ||
            pf_vocab_compare(drafter, verifier, &match) != PF_OK)
            return refuse_unknown(drafter, verifier, error);
        char what[sizeof error->text / 2];
        describe_difference(&match, drafter, verifier, what, sizeof what);
        const int64_t n_shared = match.n_ids - match.n_different;
        if (n_shared * 100 < (int64_t)match.n_ids * SHARED_PERCENT)
            return pf_fail(
                error, PF_INVALID,
                "drafter %s and verifier %s share %.1f %% of their vocabularies, expected at least %d %%: %s",
                drafter->model_id, verifier->model_id, (double)n_shared * 100.0 / match.n_ids, SHARED_PERCENT, what);
        (void)pf_fail(warning, PF_OK,
                      "the vocabularies of drafter %s and verifier %s differ: %s; only equal ids are "
                      "drafted",
                      drafter->model_id, verifier->model_id, what);
    }
    *out = match;
    return PF_OK;
}

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
