/*
 * The text that a token adds in the middle of a text, wherever it stands there: what a decoder does at the beginning of a text only, such as
 * dropping a space, does not count, and a token of a byte, or of a part of a character, adds its bytes.
 *
 * Threads: a reader is used by one at a time.
 */
#ifndef PF_TOKENIZER_TOKEN_TEXT_H
#define PF_TOKENIZER_TOKEN_TEXT_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "tokenizer/tokenizer.h"

/* Zero it but for the tokenizer, which is borrowed, and n_ids. */
typedef struct {
    const pf_tokenizer *tokenizer;
    int32_t n_ids;
    int32_t before; /* a token that stands before the others, once `is_known`; -1: there is none */
    bool is_known;
} pf_token_text;

/* Appends the text; a special token adds its own. An id that does not exist adds nothing. PF_LIMIT, PF_NOMEM. */
PF_MUST_USE pf_status pf_token_text_append(pf_token_text *reader, int32_t id, pf_bytes *out);

#endif
