/* Merges of a vocabulary in which a token's id is its rank, as tiktoken has them: every way to cut a token into two others. */
#include <stdlib.h>

#include "tokenizer/tokenizer_parts.h"

enum { MAX_WORK = 1 << 30 }; /* bytes of parts that are looked up; a vocabulary of 200,000 tokens has some 20 million */

typedef struct {
    pf_tokenizer *t;
    pf_merge *merges;
    size_t n, capacity, work;
    pf_error *error;
} collector;

static pf_status push(collector *c, pf_merge merge)
{
    if (c->n == c->capacity) {
        const size_t capacity = 2 * c->capacity + 1024;
        pf_merge *grown = realloc(c->merges, capacity * sizeof *grown);
        if (!grown) return pf_fail(c->error, PF_NOMEM, "no memory for the merges of the tokenizer");
        c->merges = grown;
        c->capacity = capacity;
    }
    c->merges[c->n++] = merge;
    return PF_OK;
}

/* All ways to cut a token have its rank. */
static pf_status cut(collector *c, int32_t id)
{
    const pf_token *token = &c->t->tokens[id];
    for (uint32_t i = 1; i < token->n_bytes; i++) {
        c->work += token->n_bytes;
        if (c->work > MAX_WORK)
            return pf_fail(c->error, PF_LIMIT, "the tokens of the tokenizer are too long to find their merges");
        const int32_t left = pf_token_index_find(&c->t->pieces, c->t->tokens, token->bytes, i);
        if (left < 0) continue;
        const int32_t right = pf_token_index_find(&c->t->pieces, c->t->tokens, token->bytes + i, token->n_bytes - i);
        if (right >= 0) PF_TRY(push(c, (pf_merge){ .left = left, .right = right, .rank = id, .merged = id }));
    }
    return PF_OK;
}

pf_status pf_rank_merges_set(pf_tokenizer *t, pf_error *error)
{
    collector c = { .t = t, .error = error };
    pf_status status = PF_OK;
    for (int32_t id = 0; status == PF_OK && id < t->base_size; id++)
        if (t->tokens[id].bytes && t->tokens[id].in_model) status = cut(&c, id);
    if (status == PF_OK && pf_bpe_reserve(&t->bpe, c.n) != PF_OK)
        status = pf_fail(error, PF_NOMEM, "no memory for the merges of the tokenizer");
    for (size_t i = 0; status == PF_OK && i < c.n; i++)
        pf_bpe_set_merge(&t->bpe, c.merges[i].left, c.merges[i].right, c.merges[i].rank, c.merges[i].merged);
    free(c.merges);
    return status;
}
