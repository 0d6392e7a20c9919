/*
 * A growing array of token ids. Zero it before first use; free it with pf_tokens_clear.
 */
#ifndef PF_TOKENIZER_TOKENS_H
#define PF_TOKENIZER_TOKENS_H

#include <stdint.h>

#include "base/status.h"

typedef struct {
    int32_t *ids;
    int32_t n, capacity;
} pf_tokens;

/* PF_NOMEM, PF_LIMIT (2^31 ids): the array is unchanged. */
PF_MUST_USE pf_status pf_tokens_push(pf_tokens *tokens, int32_t id);

void pf_tokens_clear(pf_tokens *tokens);

#endif
