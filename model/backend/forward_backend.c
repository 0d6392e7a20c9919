#include "model/backend/forward_backend.h"

int32_t pf_forward_count_shared(const pf_forward_backend *b, int64_t sequence, const int32_t *held_tokens, int32_t base,
                                const int32_t *tokens, int32_t n)
{
    const int32_t held = pf_forward_length(b, sequence);
    int32_t at = base < held ? base : held;
    while (at < held && at - base < n && held_tokens[at] == tokens[at - base]) at++;
    return at;
}
