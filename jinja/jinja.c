#include "jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

#include "jinja/rendering.h"

struct pf_jinja {
    pf_jinja_heap heap; /* the tree, its tokens and the source */
    const pf_jinja_node *statements;
    pf_jinja_text source;
    char name[160];
};

static pf_status give_up(pf_jinja_heap *heap, pf_error *error)
{
    if (error != NULL) *error = heap->error;
    return heap->status;
}

/* The source in the heap, with line ends of one character. */
static pf_jinja_text copy_source(pf_jinja_heap *heap, const char *source, size_t n)
{
    char *copy = pf_jinja_take(heap, n + 1, 1);
    size_t k = 0;
    for (size_t i = 0; copy != NULL && i < n; i++)
        if (source[i] != '\r')
            copy[k++] = source[i];
        else if (i + 1 == n || source[i + 1] != '\n')
            copy[k++] = '\n';
    return (pf_jinja_text){ copy, k };
}

pf_status pf_jinja_parse(const char *name, const char *source, size_t n_bytes, pf_jinja **out, pf_error *error)
{
    if (n_bytes > PF_JINJA_MAX_SOURCE)
        return pf_fail(error, PF_LIMIT, "%s: the template has %zu bytes, expected at most %d", name, n_bytes,
                       PF_JINJA_MAX_SOURCE);
    pf_jinja *t = calloc(1, sizeof *t);
    if (t == NULL) return pf_fail(error, PF_NOMEM, "%s: no memory for its template", name);
    strncpy(t->name, name, sizeof t->name - 1);
    pf_jinja_heap_open(&t->heap, t->name);
    pf_jinja_tokens tokens = { .n = 0 };
    t->source = copy_source(&t->heap, source, n_bytes);
    pf_jinja_tokenize(&t->heap, t->source, &tokens);
    t->statements = pf_jinja_parse_tokens(&t->heap, &tokens);
    if (!pf_jinja_is_well(&t->heap)) {
        const pf_status status = give_up(&t->heap, error);
        pf_jinja_release(t);
        return status;
    }
    *out = t;
    return PF_OK;
}

bool pf_jinja_mentions(const pf_jinja *t, const char *text)
{
    return memmem(t->source.data, t->source.n, text, strlen(text)) != NULL;
}

void pf_jinja_release(pf_jinja *t)
{
    if (t == NULL) return;
    pf_jinja_heap_close(&t->heap);
    free(t);
}

pf_status pf_jinja_render(const pf_jinja *t, const json_t *variables, pf_bytes *out, pf_error *error)
{
    pf_jinja_heap heap;
    pf_jinja_builder text = { .n = 0 };
    pf_jinja_scope given = { .around = NULL }, own;
    pf_jinja_heap_open(&heap, t->name);
    pf_jinja_run run = { .heap = &heap, .scope = &given, .out = &text };
    given.names = pf_jinja_of_json(&heap, variables);
    if (given.names.kind != PF_JINJA_DICT)
        pf_jinja_fail(&heap, PF_INVALID, "the variables are no object");
    else if (pf_jinja_open_scope(&run, &own))
        pf_jinja_execute(&run, t->statements);
    pf_status status = pf_jinja_is_well(&heap) ? PF_OK : give_up(&heap, error);
    if (status == PF_OK && text.n > 0) status = pf_bytes_append(out, text.data, text.n);
    if (status == PF_NOMEM && pf_jinja_is_well(&heap))
        status = pf_fail(error, PF_NOMEM, "%s: no memory for a text of %zu bytes", t->name, text.n);
    pf_jinja_heap_close(&heap);
    return status;
}
