/*
 * Maps the vocabulary of a target to that of a draft, by the text that a token adds in the middle of a text. Internal to engine/.
 *
 *      counterpart   the draft's token with the same text; a special token has only another special one
 *      pieces        of a token without a counterpart: its text in the draft's tokens, each the longest that fits; of a special token,
 *                    and of what no token of the draft has, the token that ends the draft's texts
 *
 * Threads: any, each with its own map.
 */
#ifndef PF_ENGINE_TOKEN_MAP_H
#define PF_ENGINE_TOKEN_MAP_H

#include "model/backend/mapped_backend.h"
#include "tokenizer/tokenizer.h"

enum { PF_TOKEN_MAP_LEAST_SHARE = 20 /* percent of the smaller vocabulary: below, a draft is not worth its time */ };

/* A tokenizer, and how many of its ids count: the rows of an embedding. */
typedef struct {
    const pf_tokenizer *tokenizer;
    int32_t n_ids;
} pf_vocabulary;

/* end: an id of the draft. Free it with pf_token_map_clear.
 * PF_INVALID: fewer than PF_TOKEN_MAP_LEAST_SHARE % of the ids of the smaller vocabulary have a counterpart; the sentence says how
 * many.  PF_NOMEM. */
PF_MUST_USE pf_status pf_token_map_build(pf_vocabulary target, pf_vocabulary draft, int32_t end, pf_token_map *out,
                                         pf_error *error);
void pf_token_map_clear(pf_token_map *map);

#endif
