#include "grammar/token_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"

enum { MOST_TOKEN_BYTES = 1 << 16 };

static int by_bytes(const void *a, const void *b, void *bytes)
{
    const pf_ordered_token *x = a, *y = b;
    const char *text = bytes;
    const int32_t n = pf_min(x->n_bytes, y->n_bytes);
    const int order = memcmp(text + x->text, text + y->text, (size_t)n);
    if (order != 0) return order;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t count_shared(const char *a, const char *b, int32_t n)
{
    int32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static void order_tokens(pf_token_order *o)
{
    qsort_r(o->tokens, (size_t)o->n, sizeof *o->tokens, by_bytes, o->bytes);
    for (int32_t i = 0; i < o->n; i++) {
        pf_ordered_token *t = &o->tokens[i];
        const pf_ordered_token *before = i > 0 ? &o->tokens[i - 1] : NULL;
        t->shared =
            before ? count_shared(o->bytes + before->text, o->bytes + t->text, pf_min(before->n_bytes, t->n_bytes)) : 0;
        o->places[t->id] = i;
        if (t->n_bytes > o->longest) o->longest = t->n_bytes;
    }
}

pf_status pf_token_order_make(int32_t n_ids, const char *(*text)(void *user, int32_t id, size_t *n_bytes), void *user,
                              pf_token_order *out)
{
    pf_token_order o = { .n_ids = n_ids };
    pf_bytes bytes = { 0 };
    o.tokens = calloc((size_t)n_ids + 1, sizeof *o.tokens);
    o.places = malloc(((size_t)n_ids + 1) * sizeof *o.places);
    pf_status status = o.tokens && o.places ? PF_OK : PF_NOMEM;
    for (int32_t id = 0; id < n_ids && status == PF_OK; id++) {
        size_t n = 0;
        const char *found = text(user, id, &n);
        o.places[id] = -1;
        if (!found || n == 0 || n > MOST_TOKEN_BYTES) continue;
        o.tokens[o.n++] = (pf_ordered_token){ .id = id, .n_bytes = (int32_t)n, .text = bytes.n };
        status = pf_bytes_append(&bytes, found, n);
    }
    o.bytes = bytes.data;
    if (status == PF_OK) {
        order_tokens(&o);
        *out = o;
    } else {
        pf_token_order_clear(&o);
    }
    return status;
}

void pf_token_order_clear(pf_token_order *o)
{
    free(o->tokens);
    free(o->places);
    free(o->bytes);
    *o = (pf_token_order){ 0 };
}

const char *pf_token_order_text(const pf_token_order *o, int32_t id, int32_t *n_bytes)
{
    if (id < 0 || id >= o->n_ids || o->places[id] < 0) return NULL;
    const pf_ordered_token *t = &o->tokens[o->places[id]];
    *n_bytes = t->n_bytes;
    return o->bytes + t->text;
}
