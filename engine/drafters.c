/* Drafters by their names. */
#include <string.h>

#include "draft/cascade_drafter.h"
#include "draft/ngram_drafter.h"
#include "draft/suffix_drafter.h"
#include "engine/engine.h"
#include "engine/roles.h"
#include "engine/versioned.h"

pf_status pf_drafter_parse(const char *word, pf_drafts_by *out, pf_error *error)
{
    static const char *const words[] = { [PF_DRAFTS_BY_MODEL] = "model",
                                         [PF_DRAFTS_BY_NGRAM] = "ngram",
                                         [PF_DRAFTS_BY_SUFFIX] = "suffix",
                                         [PF_DRAFTS_BY_CASCADE] = "cascade" };
    char known[64] = "";
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!word || strcmp(word, words[i]) == 0) {
            *out = (pf_drafts_by)i;
            return PF_OK;
        }
        pf_list_word(known, sizeof known, ", ", words[i]);
    }
    return pf_fail(error, PF_INVALID, "drafter is \"%.40s\", expected one of %s", word, known);
}

pf_status pf_lookup_drafter_create(pf_drafts_by by, const pf_model_info *target, int32_t max_sequences,
                                   int32_t max_draft, uint64_t corpus_bytes, pf_peer **out, pf_error *error)
{
    if (by == PF_DRAFTS_BY_NGRAM) return pf_ngram_drafter_create(target, max_sequences, max_draft, out, error);
    const pf_suffix_drafter_config config = { .max_sequences = max_sequences,
                                              .max_draft = max_draft,
                                              .corpus_bytes = corpus_bytes };
    return pf_suffix_drafter_create(target, &config, out, error);
}

pf_status pf_engine_make_cascade(uint64_t corpus_bytes, pf_peer **peer, pf_error *error)
{
    pf_model_info draft;
    pf_peer *lookup, *model = *peer;
    *peer = NULL;
    pf_status status = pf_peer_info(model, &draft, error); /* of the vocabulary that it speaks */
    if (status == PF_OK)
        status = pf_lookup_drafter_create(PF_DRAFTS_BY_SUFFIX, &draft, draft.max_sequences, draft.max_draft,
                                          corpus_bytes, &lookup, error);
    if (status != PF_OK) {
        pf_peer_destroy(model);
        return status;
    }
    return pf_cascade_drafter_create(lookup, model, (pf_stop){ 0 }, peer, error);
}

static pf_status make_cascade(const pf_drafter_options *o, pf_peer **out, pf_error *error)
{
    pf_peer *peer;
    PF_TRY(pf_engine_drafter(o->draft, o->role, &peer, error));
    const pf_status status = pf_engine_make_cascade(o->suffix_corpus_bytes, &peer, error);
    if (status == PF_OK)
        *out = peer;
    else
        pf_engine_give_role_back(o->draft);
    return status;
}

static pf_status check_parts(const pf_drafter_options *o, pf_drafts_by by, pf_error *error)
{
    if (pf_drafts_by_model(by) && (!o->draft || o->verifier))
        return pf_fail(error, PF_INVALID, "the drafter %s needs a draft, and takes no verifier",
                       o->drafter ? o->drafter : "model");
    if (!pf_drafts_by_model(by) && (o->draft || o->role || !o->verifier))
        return pf_fail(error, PF_INVALID, "the drafter %s needs a verifier, and takes neither a draft nor a role",
                       o->drafter);
    if (by != PF_DRAFTS_BY_SUFFIX && by != PF_DRAFTS_BY_CASCADE && o->suffix_corpus_bytes > 0)
        return pf_fail(error, PF_INVALID, "suffix_corpus_bytes is %llu, expected 0 with the drafter %s",
                       (unsigned long long)o->suffix_corpus_bytes, o->drafter ? o->drafter : "model");
    return PF_OK;
}

pf_status pf_drafter_create(const pf_drafter_options *given, pf_peer **out, pf_error *error)
{
    pf_drafter_options o;
    pf_drafts_by by;
    PF_TRY(pf_versioned_copy("pf_drafter_options", given, &o, sizeof o, error));
    PF_TRY(pf_drafter_parse(o.drafter, &by, error));
    PF_TRY(check_parts(&o, by, error));
    if (by == PF_DRAFTS_BY_MODEL) return pf_engine_drafter(o.draft, o.role, out, error);
    if (by == PF_DRAFTS_BY_CASCADE) return make_cascade(&o, out, error);
    pf_model_info target;
    PF_TRY(pf_peer_info(o.verifier, &target, error));
    const int32_t most = o.verifier->is_far ? 1 : target.max_sequences; /* a session has a far one for itself */
    const int32_t max_sequences = o.max_sequences > 0 ? o.max_sequences : most;
    return pf_lookup_drafter_create(by, &target, max_sequences, target.max_draft, o.suffix_corpus_bytes, out, error);
}

pf_status pf_ngram_drafter_for(pf_peer *verifier, pf_peer **out, pf_error *error)
{
    const pf_drafter_options options = { .size = sizeof options, .drafter = "ngram", .verifier = verifier };
    return pf_drafter_create(&options, out, error);
}
