/* SentencePiece's BPE joins the neighbours whose piece has the highest score. As merges by rank: every way to cut a piece in two. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/files/document_parts.h"

enum { MAX_WORK = 1 << 30 }; /* bytes of parts that are looked up; a vocabulary of 256,000 tokens has some 20 million */

typedef struct {
    double score;
    int32_t left_id, right_id;
    uint32_t n_left, n_right; /* characters */
    size_t order;             /* keeps the sort stable */
    const char *text;         /* of the piece, owned by the vocabulary */
    size_t n_left_bytes;
} merge;

typedef struct {
    const char *name;
    json_t *vocab;
    merge *merges;
    size_t n, capacity, work;
    char *part; /* scratch of part_bytes */
    size_t part_bytes;
    pf_error *error;
} collector;

static pf_status no_memory(const collector *c)
{
    return pf_fail(c->error, PF_NOMEM, "%s: no memory for the merges of its tokens", c->name);
}

static pf_status push(collector *c, const merge *item)
{
    if (c->n == c->capacity) {
        const size_t capacity = 2 * c->capacity + 1024;
        merge *grown = realloc(c->merges, capacity * sizeof *grown);
        if (grown == NULL) return no_memory(c);
        c->merges = grown;
        c->capacity = capacity;
    }
    c->merges[c->n] = *item;
    c->merges[c->n].order = c->n;
    c->n++;
    return PF_OK;
}

/* The id of a text; -1: there is none. */
static int32_t find(const collector *c, const char *text)
{
    const json_t *id = json_object_get(c->vocab, text);
    return id == NULL ? -1 : (int32_t)json_integer_value(id);
}

static int by_ids(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    if (x->left_id != y->left_id) return x->left_id < y->left_id ? -1 : 1;
    return (x->right_id > y->right_id) - (x->right_id < y->right_id);
}

static int by_score(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->n_left != y->n_left) return x->n_left > y->n_left ? -1 : 1;
    if (x->n_right != y->n_right) return x->n_right > y->n_right ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static size_t character_bytes(const char *text)
{
    bool valid;
    return pf_utf8_length(text, strlen(text) < 4 ? strlen(text) : 4, &valid);
}

/* Adds every cut of a piece whose parts both exist. */
static pf_status cut(collector *c, const char *text, double score)
{
    const size_t n = strlen(text), n_first = c->n;
    uint32_t n_characters = 0, k = 0;
    for (size_t i = 0; i < n; i += character_bytes(text + i)) n_characters++;
    if (n + 1 > c->part_bytes) {
        char *grown = realloc(c->part, 2 * n + 64);
        if (grown == NULL) return no_memory(c);
        c->part = grown;
        c->part_bytes = 2 * n + 64;
    }
    for (size_t i = character_bytes(text); i < n; i += character_bytes(text + i)) {
        k++;
        c->work += n;
        if (c->work > MAX_WORK)
            return pf_fail(c->error, PF_LIMIT, "%s: the tokens are too long to find their merges", c->name);
        memcpy(c->part, text, i);
        c->part[i] = '\0';
        const merge m = { .score = score,
                          .left_id = find(c, c->part),
                          .right_id = find(c, text + i),
                          .n_left = k,
                          .n_right = n_characters - k,
                          .text = text,
                          .n_left_bytes = i };
        if (m.left_id >= 0 && m.right_id >= 0) PF_TRY(push(c, &m));
    }
    if (c->n > n_first) qsort(c->merges + n_first, c->n - n_first, sizeof *c->merges, by_ids);
    for (size_t i = n_first; i < c->n; i++) c->merges[i].order = i;
    return PF_OK;
}

static pf_status print(const collector *c, json_t **out)
{
    json_t *list = json_array();
    bool fits = list != NULL;
    for (size_t i = 0; fits && i < c->n; i++) {
        const merge *m = &c->merges[i];
        json_t *pair = json_pack("[o, s]", json_stringn_nocheck(m->text, m->n_left_bytes), m->text + m->n_left_bytes);
        fits = json_array_append_new(list, pair) == 0;
    }
    if (!fits) {
        json_decref(list);
        return no_memory(c);
    }
    *out = list;
    return PF_OK;
}

pf_status pf_score_merges(const char *name, json_t *vocab, const double *scores, json_t **out, pf_error *error)
{
    collector c = { .name = name, .vocab = vocab, .error = error };
    pf_status status = PF_OK;
    const char *text;
    json_t *id;
    json_object_foreach(vocab, text, id)
    {
        const double score = scores[json_integer_value(id)];
        if (status == PF_OK && !isnan(score) && *text) status = cut(&c, text, score);
    }
    if (status == PF_OK && c.n > 0) qsort(c.merges, c.n, sizeof *c.merges, by_score);
    if (status == PF_OK) status = print(&c, out);
    free(c.merges);
    free(c.part);
    return status;
}
