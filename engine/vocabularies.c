/* Compares the vocabulary of a drafter with that of its verifier: equal, alike enough to draft over the ids that they share, or
 * not (docs/protocol.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "engine/run.h"
#include "proto/vocabulary.h"

enum { SHARED_PERCENT = 90, TEXT_BYTES = 40 };

static bool is_zero(const uint8_t fingerprint[32])
{
    static const uint8_t zero[32];
    return memcmp(fingerprint, zero, sizeof zero) == 0;
}

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

/* Whether it has a tokenizer: without one only the sizes are compared. */
static bool has_tokens(const pf_model_info *info)
{
    return !is_zero(info->vocab_fingerprint) || info->n_vocab_hashes > 0;
}

static bool are_equal(const pf_model_info *drafter, const pf_model_info *verifier)
{
    if (!has_tokens(drafter) || !has_tokens(verifier)) return drafter->vocab_size == verifier->vocab_size;
    return !is_zero(drafter->vocab_fingerprint) &&
           memcmp(drafter->vocab_fingerprint, verifier->vocab_fingerprint, sizeof drafter->vocab_fingerprint) == 0;
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
    if (!drafter->any_vocabulary && !are_equal(drafter, verifier)) {
        if (!has_tokens(drafter) || !has_tokens(verifier) || pf_vocab_compare(drafter, verifier, &match) != PF_OK)
            return refuse_unknown(drafter, verifier, error);
        if (match.n_different == 0) {
            *out = match;
            return PF_OK;
        }
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

pf_status pf_vocabulary_match(const pf_model_info *drafter, const pf_model_info *target,
                              int32_t excluded[2 * PF_MAX_EXCLUDED], int32_t *n_excluded, pf_error *warning,
                              pf_error *error)
{
    *n_excluded = 0;
    if (target->vocab_size < 1)
        return pf_fail(error, PF_INVALID, "the target's vocab_size is %d, expected 1 or more", target->vocab_size);
    pf_model_info *hashed = malloc(sizeof *hashed);
    pf_vocab_match *match = malloc(sizeof *match);
    pf_status status = hashed && match ? PF_OK : PF_NOMEM;
    if (status == PF_OK) {
        *hashed = *target;
        if (hashed->texts && hashed->n_vocab_hashes == 0) pf_vocab_hash(hashed);
        status = pf_session_check_vocabularies(drafter, hashed, match, warning, error);
    }
    if (status == PF_OK) {
        *n_excluded = match->n_excluded;
        memcpy(excluded, match->excluded, 2 * (size_t)match->n_excluded * sizeof *excluded);
    }
    free(match);
    free(hashed);
    return status;
}
