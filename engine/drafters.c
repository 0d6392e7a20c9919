/* Drafters by their names. */
#include <string.h>

#include "draft/choice_drafter.h"
#include "draft/ngram_drafter.h"
#include "draft/suffix_drafter.h"
#include "engine/engine.h"
#include "engine/roles.h"
#include "engine/versioned.h"

/* ---- lists --------------------------------------------------------------------------------------------------------- */

static bool has(const pf_drafter_list *list, pf_drafts_by by)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->by[i] == by) return true;
    return false;
}

bool pf_drafter_list_has_model(const pf_drafter_list *list)
{
    return has(list, PF_DRAFTS_BY_MODEL) || has(list, PF_DRAFTS_BY_CASCADE);
}

bool pf_drafter_list_has_suffixes(const pf_drafter_list *list)
{
    return has(list, PF_DRAFTS_BY_SUFFIX) || has(list, PF_DRAFTS_BY_CASCADE);
}

pf_status pf_drafter_list_parse(const char *words, pf_drafter_list *out, pf_error *error)
{
    pf_drafter_list list = { .n = 0 };
    if (!words || words[0] == '\0') words = pf_drafts_by_word(PF_DRAFTS_BY_MODEL);
    for (const char *word = words;; word++) {
        const size_t n = strcspn(word, ",");
        pf_drafts_by by;
        PF_TRY(pf_drafts_by_parse(word, n, &by, error));
        if (has(&list, by))
            return pf_fail(error, PF_INVALID, "drafter is \"%.60s\", which has %s twice", words, pf_drafts_by_word(by));
        list.by[list.n++] = by;
        word += n;
        if (*word == '\0') break;
    }
    *out = list;
    return PF_OK;
}

/* ---- peers --------------------------------------------------------------------------------------------------------- */

static pf_status make_lookups(const pf_drafters_plan *plan, pf_choice_drafter_config *choice, pf_error *error)
{
    pf_model_info of_model;
    const pf_model_info *texts = plan->texts;
    int32_t max_sequences = plan->max_sequences, max_draft = plan->max_draft;
    if (plan->model) {
        PF_TRY(pf_peer_info(plan->model, &of_model, error));
        texts = &of_model;
        max_sequences = of_model.max_sequences;
        max_draft = of_model.max_draft;
    }
    const pf_suffix_drafter_config suffix = { .max_sequences = max_sequences,
                                              .max_draft = max_draft,
                                              .corpus_bytes = plan->corpus_bytes };
    if (pf_drafter_list_has_suffixes(plan->list))
        PF_TRY(pf_suffix_drafter_create(texts, &suffix, &choice->suffix, error));
    if (!has(plan->list, PF_DRAFTS_BY_NGRAM)) return PF_OK;
    return pf_ngram_drafter_create(texts, max_sequences, max_draft, (pf_stop){ 0 }, &choice->ngram, error);
}

pf_status pf_drafters_make(const pf_drafters_plan *plan, pf_peer **out, pf_error *error)
{
    const pf_drafter_list *list = plan->list;
    pf_choice_drafter_config choice = { .model = plan->model, .offered = list->by, .n_offered = list->n };
    const pf_status status = make_lookups(plan, &choice, error);
    if (status != PF_OK) {
        pf_peer_destroy(choice.model);
        pf_peer_destroy(choice.suffix);
        return status;
    }
    if (list->n > 1 || list->by[0] == PF_DRAFTS_BY_CASCADE) return pf_choice_drafter_create(&choice, out, error);
    *out = choice.model ? choice.model : choice.suffix ? choice.suffix : choice.ngram;
    return PF_OK;
}

static pf_status make_with_model(const pf_drafter_options *o, const pf_drafter_list *list, pf_peer **out,
                                 pf_error *error)
{
    pf_drafters_plan plan = { .list = list, .corpus_bytes = o->suffix_corpus_bytes };
    PF_TRY(pf_engine_drafter(o->draft, o->role, &plan.model, error));
    const pf_status status = pf_drafters_make(&plan, out, error);
    if (status != PF_OK) pf_engine_give_role_back(o->draft);
    return status;
}

static pf_status make_of_lookups(const pf_drafter_options *o, const pf_drafter_list *list, pf_peer **out,
                                 pf_error *error)
{
    pf_model_info target;
    PF_TRY(pf_peer_info(o->verifier, &target, error));
    const int32_t most = o->verifier->is_far ? 1 : target.max_sequences; /* a session has a far one for itself */
    const pf_drafters_plan plan = { .list = list,
                                    .texts = &target,
                                    .max_sequences = o->max_sequences > 0 ? o->max_sequences : most,
                                    .max_draft = target.max_draft,
                                    .corpus_bytes = o->suffix_corpus_bytes };
    return pf_drafters_make(&plan, out, error);
}

static pf_status check_parts(const pf_drafter_options *o, const pf_drafter_list *list, pf_error *error)
{
    const bool by_model = pf_drafter_list_has_model(list);
    const char *words = o->drafter ? o->drafter : "model";
    if (by_model && (!o->draft || o->verifier))
        return pf_fail(error, PF_INVALID, "the drafter %s needs a draft, and takes no verifier", words);
    if (!by_model && (o->draft || o->role || !o->verifier))
        return pf_fail(error, PF_INVALID, "the drafter %s needs a verifier, and takes neither a draft nor a role",
                       words);
    if (!pf_drafter_list_has_suffixes(list) && o->suffix_corpus_bytes > 0)
        return pf_fail(error, PF_INVALID, "suffix_corpus_bytes is %llu, expected 0 with the drafter %s",
                       (unsigned long long)o->suffix_corpus_bytes, words);
    return PF_OK;
}

pf_status pf_drafter_create(const pf_drafter_options *given, pf_peer **out, pf_error *error)
{
    pf_drafter_options o;
    pf_drafter_list list;
    PF_TRY(pf_versioned_copy("pf_drafter_options", given, &o, sizeof o, error));
    PF_TRY(pf_drafter_list_parse(o.drafter, &list, error));
    PF_TRY(check_parts(&o, &list, error));
    return pf_drafter_list_has_model(&list) ? make_with_model(&o, &list, out, error)
                                            : make_of_lookups(&o, &list, out, error);
}

pf_status pf_ngram_drafter_for(pf_peer *verifier, pf_peer **out, pf_error *error)
{
    const pf_drafter_options options = { .size = sizeof options, .drafter = "ngram", .verifier = verifier };
    return pf_drafter_create(&options, out, error);
}
