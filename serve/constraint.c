#include "serve/constraint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "tokenizer/decode/detokenize.h"

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
    const pf_tokenizer *tokenizer;
    pf_detokenizer *decoder;
    const int32_t *shown;
    int32_t n_shown;
    pf_bytes text;
    char byte;
} reader;

/* The byte of a token <0xHH>, which a decoder holds back until the next one; -1: it is another. */
static int32_t byte_of(const char *token, size_t n)
{
    unsigned int value;
    char digits[3] = { 0 };
    if (!token || n != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') return -1;
    memcpy(digits, token + 3, 2);
    return sscanf(digits, "%2x", &value) == 1 ? (int32_t)value : -1;
}

/* A pf_token_order_make text. */
static const char *read_text(void *user, int32_t id, size_t *n_bytes)
{
    reader *r = user;
    const char *token = pf_tokenizer_token_bytes(r->tokenizer, id, n_bytes);
    if (!token) return NULL;
    if (pf_tokenizer_is_special(r->tokenizer, id)) {
        for (int32_t i = 0; i < r->n_shown; i++)
            if (r->shown[i] == id) return token;
        return NULL;
    }
    const int32_t byte = byte_of(token, *n_bytes);
    if (byte >= 0) {
        r->byte = (char)byte;
        *n_bytes = 1;
        return &r->byte;
    }
    r->text.n = 0;
    if (pf_detokenizer_push(r->decoder, id, &r->text) != PF_OK) return NULL;
    *n_bytes = r->text.n;
    return r->text.data;
}

pf_status pf_constraint_order(const pf_tokenizer *tokenizer, int32_t n_ids, const int32_t *shown, int32_t n_shown,
                              pf_token_order *out)
{
    reader r = { .tokenizer = tokenizer, .shown = shown, .n_shown = n_shown };
    PF_TRY(pf_detokenizer_create(tokenizer, &r.decoder));
    size_t n = 0;
    for (int32_t id = 0; id < n_ids && n == 0; id++) /* the first token of a text may lose a space: it is this one */
        if (!read_text(&r, id, &n)) n = 0;
    const pf_status status = pf_token_order_make(n_ids, read_text, &r, out);
    pf_detokenizer_destroy(r.decoder);
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
