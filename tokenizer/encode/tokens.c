#include "tokenizer/encode/tokens.h"

#include <stddef.h>
#include <stdlib.h>

pf_status pf_tokens_push(pf_tokens *tokens, int32_t id)
{
    if (tokens->n == tokens->capacity) {
        if (tokens->capacity == INT32_MAX) return PF_LIMIT;
        const int64_t twice = (int64_t)tokens->capacity * 2 + 64;
        const int32_t capacity = twice > INT32_MAX ? INT32_MAX : (int32_t)twice;
        int32_t *grown = realloc(tokens->ids, (size_t)capacity * sizeof *grown);
        if (!grown) return PF_NOMEM;
        tokens->ids = grown;
        tokens->capacity = capacity;
    }
    tokens->ids[tokens->n++] = id;
    return PF_OK;
}

void pf_tokens_clear(pf_tokens *tokens)
{
    free(tokens->ids);
    *tokens = (pf_tokens){ 0 };
}
