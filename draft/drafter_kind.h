/* The kinds of drafters of this process, by the words of the command line, which are their names on the wire. */
#ifndef PF_DRAFT_DRAFTER_KIND_H
#define PF_DRAFT_DRAFTER_KIND_H

#include <stdbool.h>

#include "base/status.h"
#include "proto/messages.h"

typedef enum {
    PF_DRAFTS_BY_MODEL,
    PF_DRAFTS_BY_NGRAM,
    PF_DRAFTS_BY_SUFFIX,
    PF_DRAFTS_BY_CASCADE,
    PF_N_DRAFTS_BY
} pf_drafts_by;

/* "model", "ngram", "suffix", "cascade". */
const char *pf_drafts_by_word(pf_drafts_by by);

/* PF_INVALID: the word [n_bytes] names none; the sentence lists those that there are. */
PF_MUST_USE pf_status pf_drafts_by_parse(const char *word, size_t n_bytes, pf_drafts_by *out, pf_error *error);

/* Of a drafter's info: it offers this one alone. */
void pf_drafts_by_state(pf_drafts_by by, pf_model_info *info);

/* Whether it has a model, and whether it looks suffixes up. */
static inline bool pf_drafts_by_model(pf_drafts_by by)
{
    return by == PF_DRAFTS_BY_MODEL || by == PF_DRAFTS_BY_CASCADE;
}

static inline bool pf_drafts_by_suffixes(pf_drafts_by by)
{
    return by == PF_DRAFTS_BY_SUFFIX || by == PF_DRAFTS_BY_CASCADE;
}

#endif
