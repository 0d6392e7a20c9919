#include "serve/constraint.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "tokenizer/decode/token_text.h"

struct pf_constraint {
    pf_matcher *matcher;
    const pf_token_order *order;
    const int32_t *ends; /* [n_ends] */
    int32_t n_ends;
    int32_t *tokens; /* [capacity] the latest text that was followed */
    int32_t *states; /* [capacity] behind 0 .. n_tokens of its tokens */
    int32_t n_tokens, capacity;
};

/* ---- the texts of tokens ------------------------------------------------------------------------------------------- */

typedef struct {
    pf_token_text tokens;
    const int32_t *shown;
    int32_t n_shown;
    pf_bytes text;
    pf_status status; /* of what could not be read */
} reader;

static bool is_shown(const reader *r, int32_t id)
{
    for (int32_t i = 0; i < r->n_shown; i++)
        if (r->shown[i] == id) return true;
    return !pf_tokenizer_is_special(r->tokens.tokenizer, id);
}

/* A pf_token_order_make text. */
static const char *read_text(void *user, int32_t id, size_t *n_bytes)
{
    reader *r = user;
    r->text.n = 0;
    if (r->status != PF_OK || !is_shown(r, id)) return NULL;
    r->status = pf_token_text_append(&r->tokens, id, &r->text);
    *n_bytes = r->text.n;
    return r->text.data;
}

pf_status pf_constraint_order(const pf_tokenizer *tokenizer, int32_t n_ids, const int32_t *shown, int32_t n_shown,
                              pf_token_order *out)
{
    reader r = { .tokens = { .tokenizer = tokenizer, .n_ids = n_ids }, .shown = shown, .n_shown = n_shown };
    pf_status status = pf_token_order_make(n_ids, read_text, &r, out);
    if (status == PF_OK && r.status != PF_OK) {
        pf_token_order_clear(out);
        status = r.status;
    }
    pf_bytes_clear(&r.text);
    return status;
}

/* ---- the text ------------------------------------------------------------------------------------------------------ */

pf_status pf_constraint_create(const pf_grammar *grammar, const pf_token_order *order, const int32_t *ends,
                               int32_t n_ends, pf_constraint **out)
{
    enum { USUAL_TOKENS = 256 };
    pf_constraint *c = calloc(1, sizeof *c);
    if (!c) return PF_NOMEM;
    c->order = order;
    c->ends = ends;
    c->n_ends = n_ends;
    c->capacity = USUAL_TOKENS;
    c->states = calloc((size_t)c->capacity, sizeof *c->states); /* state 0 is the begin */
    c->tokens = calloc((size_t)c->capacity, sizeof *c->tokens);
    const pf_status status = c->states && c->tokens ? pf_matcher_create(grammar, order, &c->matcher) : PF_NOMEM;
    if (status == PF_OK)
        *out = c;
    else
        pf_constraint_destroy(c);
    return status;
}

void pf_constraint_destroy(pf_constraint *c)
{
    if (!c) return;
    pf_matcher_destroy(c->matcher);
    free(c->states);
    free(c->tokens);
    free(c);
}

/* The state behind the text. */
static int32_t follow(pf_constraint *c, const int32_t *text, int32_t n_text)
{
    if (n_text >= c->capacity) {
        const int32_t capacity = 2 * n_text;
        int32_t *states = realloc(c->states, (size_t)capacity * sizeof *states);
        if (!states) return PF_MATCHER_DEAD;
        c->states = states;
        int32_t *tokens = realloc(c->tokens, (size_t)capacity * sizeof *tokens);
        if (!tokens) return PF_MATCHER_DEAD;
        c->tokens = tokens;
        c->capacity = capacity;
    }
    int32_t n = 0;
    while (n < n_text && n < c->n_tokens && text[n] == c->tokens[n]) n++;
    for (; n < n_text; n++) {
        c->tokens[n] = text[n];
        c->states[n + 1] = pf_matcher_advance(c->matcher, c->states[n], text[n]);
        c->n_tokens = n + 1;
    }
    return c->states[n_text];
}

static void set_bit(uint32_t *mask, int32_t id, int32_t n_ids)
{
    if (id >= 0 && id < n_ids) mask[id / 32] |= 1u << (id % 32);
}

void pf_constraint_allow(void *user, const int32_t *text, int32_t n_text, const int32_t *path, int32_t n_path,
                         uint32_t *mask, int32_t n_ids)
{
    pf_constraint *c = user;
    int32_t at = follow(c, text, n_text);
    for (int32_t i = 0; i < n_path && at >= 0; i++) at = pf_matcher_advance(c->matcher, at, path[i]);
    if (at < 0 && n_path > 0) {
        for (int32_t id = 0; id < n_ids; id++) set_bit(mask, id, n_ids);
        return;
    }
    const uint32_t *allowed = at >= 0 ? pf_matcher_allowed(c->matcher, at) : NULL;
    const int32_t n = pf_min(n_ids, c->order->n_ids);
    if (!allowed) return;
    memcpy(mask, allowed, (size_t)(n / 32) * sizeof *mask);
    if (n % 32 > 0) mask[n / 32] = allowed[n / 32] & ((1u << (n % 32)) - 1);
    for (int32_t i = 0; i < c->n_ends && pf_matcher_accepts(c->matcher, at); i++) set_bit(mask, c->ends[i], n_ids);
}
