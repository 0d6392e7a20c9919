#include "tokenizer/encode/token_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

pf_status pf_token_index_reserve(pf_token_index *index, size_t n_tokens)
{
    size_t n_slots = 2;
    while (n_slots < n_tokens * 2 + 2) n_slots *= 2;
    index->ids = malloc(n_slots * sizeof *index->ids);
    if (!index->ids) return PF_NOMEM;
    index->n_slots = n_slots;
    index->seed = pf_hash_seed();
    for (size_t i = 0; i < n_slots; i++) index->ids[i] = -1;
    return PF_OK;
}

static size_t slot_of(const pf_token_index *index, const pf_token *tokens, const char *bytes, size_t n)
{
    size_t i = (size_t)pf_hash_bytes(index->seed, bytes, n) & (index->n_slots - 1);
    for (; index->ids[i] >= 0; i = (i + 1) & (index->n_slots - 1)) {
        const pf_token *token = &tokens[index->ids[i]];
        if (token->n_bytes == n && memcmp(token->bytes, bytes, n) == 0) break;
    }
    return i;
}

void pf_token_index_add(pf_token_index *index, const pf_token *tokens, int32_t id)
{
    index->ids[slot_of(index, tokens, tokens[id].bytes, tokens[id].n_bytes)] = id;
}

int32_t pf_token_index_find(const pf_token_index *index, const pf_token *tokens, const char *bytes, size_t n_bytes)
{
    return index->n_slots == 0 ? -1 : index->ids[slot_of(index, tokens, bytes, n_bytes)];
}
