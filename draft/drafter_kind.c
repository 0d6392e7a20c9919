#include "draft/drafter_kind.h"

#include <string.h>

static const char *const words[PF_N_DRAFTS_BY] = { [PF_DRAFTS_BY_MODEL] = "model",
                                                   [PF_DRAFTS_BY_NGRAM] = "ngram",
                                                   [PF_DRAFTS_BY_SUFFIX] = "suffix",
                                                   [PF_DRAFTS_BY_CASCADE] = "cascade" };

const char *pf_drafts_by_word(pf_drafts_by by)
{
    return words[by];
}

void pf_drafts_by_state(pf_drafts_by by, pf_model_info *info)
{
    strcpy(info->drafters[0], words[by]);
    info->n_drafters = 1;
}

pf_status pf_drafts_by_parse(const char *word, size_t n_bytes, pf_drafts_by *out, pf_error *error)
{
    enum { SHOWN = 40 };
    char known[64] = "";
    for (size_t i = 0; i < PF_N_DRAFTS_BY; i++) {
        if (strlen(words[i]) == n_bytes && memcmp(word, words[i], n_bytes) == 0) {
            *out = (pf_drafts_by)i;
            return PF_OK;
        }
        pf_list_word(known, sizeof known, ", ", words[i]);
    }
    return pf_fail(error, PF_INVALID, "drafter is \"%.*s\", expected one of %s", n_bytes < SHOWN ? (int)n_bytes : SHOWN,
                   word, known);
}
