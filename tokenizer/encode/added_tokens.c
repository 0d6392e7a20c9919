/*
 * An Aho-Corasick automaton over the reversed tokens; its root has a table of 256 children. It reads a window of the text
 * from back to front, so its state at a position gives the longest token that begins there. Time is linear in the text,
 * independent of the tokens.
 *
 * Source: Aho and Corasick, Efficient string matching, CACM 18(6), 1975.
 */
#include "tokenizer/encode/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/characters.h"

/* A suffix of a token, which is a prefix of the reversed token. */
typedef struct {
    unsigned char byte;     /* first byte of the suffix */
    int32_t child, sibling; /* nodes; 0: none */
    int32_t shorter;        /* failure link: the longest other node that is a prefix of this suffix */
    int32_t token;          /* the longest token that is a prefix of this suffix; -1: none */
} node;

typedef struct {
    int32_t id, n_bytes;
    pf_added_flags flags;
    bool is_ignored;
} added_token;

struct pf_added_matcher {
    int32_t first[256]; /* nodes; 0: none */
    node *nodes;        /* [0] is the root, whose children are in `first` */
    size_t n_nodes, node_capacity;
    size_t longest_bytes; /* of all tokens */
    added_token *tokens;
    size_t n_tokens, token_capacity;
};

pf_status pf_added_matcher_create(pf_added_matcher **out)
{
    pf_added_matcher *m = calloc(1, sizeof *m);
    if (!m) return PF_NOMEM;
    m->n_nodes = 1;
    *out = m;
    return PF_OK;
}

void pf_added_matcher_destroy(pf_added_matcher *m)
{
    if (!m) return;
    free(m->nodes);
    free(m->tokens);
    free(m);
}

static pf_status reserve(pf_added_matcher *m, size_t n_more_nodes)
{
    if (m->n_nodes + n_more_nodes > m->node_capacity) {
        const size_t capacity = (m->n_nodes + n_more_nodes) * 2;
        node *grown = capacity > INT32_MAX ? NULL : realloc(m->nodes, capacity * sizeof *grown);
        if (!grown) return PF_NOMEM;
        m->nodes = grown;
        m->node_capacity = capacity;
    }
    if (m->n_tokens == m->token_capacity) {
        const size_t capacity = m->token_capacity * 2 + 16;
        added_token *grown = realloc(m->tokens, capacity * sizeof *grown);
        if (!grown) return PF_NOMEM;
        m->tokens = grown;
        m->token_capacity = capacity;
    }
    return PF_OK;
}

/* The node for `byte` in the list that begins at `at`; 0: none. */
static int32_t find(const pf_added_matcher *m, int32_t at, unsigned char byte)
{
    while (at && m->nodes[at].byte != byte) at = m->nodes[at].sibling;
    return at;
}

pf_status pf_added_matcher_add(pf_added_matcher *m, const char *text, size_t n_bytes, int32_t id, pf_added_flags flags,
                               bool is_ignored)
{
    PF_TRY(reserve(m, n_bytes));
    int32_t at = 0;
    for (size_t i = n_bytes; i-- > 0;) {
        const unsigned char byte = (unsigned char)text[i];
        int32_t *head = at == 0 ? &m->first[byte] : &m->nodes[at].child;
        int32_t next = find(m, *head, byte);
        if (!next) {
            next = (int32_t)m->n_nodes++;
            m->nodes[next] = (node){ .byte = byte, .sibling = *head, .token = -1 };
            *head = next;
        }
        at = next;
    }
    if (m->nodes[at].token >= 0) return PF_OK;
    m->nodes[at].token = (int32_t)m->n_tokens;
    m->tokens[m->n_tokens++] =
        (added_token){ .id = id, .n_bytes = (int32_t)n_bytes, .flags = flags, .is_ignored = is_ignored };
    if (n_bytes > m->longest_bytes) m->longest_bytes = n_bytes;
    return PF_OK;
}

/* The node for the longest suffix in the trie that is a prefix of `byte` followed by the suffix of `at`. */
static int32_t step(const pf_added_matcher *m, int32_t at, unsigned char byte)
{
    for (; at; at = m->nodes[at].shorter) {
        const int32_t next = find(m, m->nodes[at].child, byte);
        if (next) return next;
    }
    return m->first[byte];
}

/* Breadth first, because the links of a node depend on shorter ones. */
pf_status pf_added_matcher_finish(pf_added_matcher *m)
{
    if (m->n_tokens == 0) return PF_OK;
    int32_t *queue = malloc(m->n_nodes * sizeof *queue);
    if (!queue) return PF_NOMEM;
    size_t n = 0;
    m->nodes[0] = (node){ .token = -1 };
    for (int byte = 0; byte < 256; byte++)
        if (m->first[byte]) queue[n++] = m->first[byte];
    for (size_t i = 0; i < n; i++) {
        const node *parent = &m->nodes[queue[i]];
        for (int32_t at = parent->child; at; at = m->nodes[at].sibling) {
            node *made = &m->nodes[at];
            made->shorter = step(m, parent->shorter, made->byte);
            if (made->token < 0) made->token = m->nodes[made->shorter].token;
            queue[n++] = at;
        }
    }
    free(queue);
    return PF_OK;
}

/* --- matching --- */

/* Fill the window with the longest tokens that begin at the next positions; they may end after it. PF_CANCELLED. */
static pf_status look_ahead(const pf_added_matcher *m, pf_added_walk *w)
{
    const char *text = w->text + w->scanned;
    const size_t left = w->n_bytes - w->scanned, window = PF_ADDED_WINDOW;
    const size_t n = left < window ? left : window, reach = n + m->longest_bytes - 1;
    int32_t at = 0;
    if (pf_is_told(w->cancel)) return PF_CANCELLED;
    for (size_t i = left < reach ? left : reach; i-- > 0;) {
        at = step(m, at, (unsigned char)text[i]);
        if (i < n) w->window[i] = m->nodes[at].token;
    }
    w->window_begin = w->scanned;
    w->window_end = w->scanned + n;
    return PF_OK;
}

static bool touches_word(const pf_added_walk *w, size_t begin, size_t end)
{
    size_t next;
    return (begin > 0 && pf_is_word(pf_character_at(w->text, pf_character_before(w->text, begin), &next))) ||
           (end < w->n_bytes && pf_is_word(pf_character_at(w->text, end, &next)));
}

static size_t strip_left(const pf_added_walk *w, size_t begin)
{
    while (begin > w->covered) { /* the previous token may have taken white space */
        size_t next;
        const size_t before = pf_character_before(w->text, begin);
        if (!pf_is_white_space(pf_character_at(w->text, before, &next))) break;
        begin = before;
    }
    return begin > w->covered ? begin : w->covered;
}

/* Where the run of white space at `end` ends. The last run is cached: many tokens may lie in it. */
static size_t strip_right(pf_added_walk *w, size_t end)
{
    if (end >= w->run_begin && end < w->run_end) return w->run_end;
    w->run_begin = end;
    for (size_t next; end < w->n_bytes; end = next)
        if (!pf_is_white_space(pf_character_at(w->text, end, &next))) break;
    w->run_end = end;
    return end;
}

pf_status pf_added_matcher_next(const pf_added_matcher *m, pf_added_walk *w, pf_added_part *out)
{
    if (w->has_pending) {
        w->has_pending = false;
        *out = w->pending;
        return PF_OK;
    }
    while (m->n_tokens > 0 && w->scanned < w->n_bytes) {
        if (w->scanned >= w->window_end) PF_TRY(look_ahead(m, w));
        const int32_t token = w->window[w->scanned - w->window_begin];
        size_t begin = w->scanned, end = begin + (token < 0 ? 1 : (size_t)m->tokens[token].n_bytes);
        w->scanned = end;
        if (token < 0) continue;
        const pf_added_flags flags = m->tokens[token].flags;
        if (m->tokens[token].is_ignored) continue;
        if (flags.single_word && touches_word(w, begin, end)) continue;
        if (flags.lstrip) begin = strip_left(w, begin);
        if (flags.rstrip) end = strip_right(w, end);

        if (begin >= end) continue; /* the token is white space that the previous token took */

        const pf_added_part part = { begin, end, m->tokens[token].id };
        const bool between = begin > w->covered;
        *out = between ? (pf_added_part){ w->covered, begin, -1 } : part;
        w->has_pending = between;
        w->pending = part;
        w->covered = end;
        return PF_OK;
    }
    *out = (pf_added_part){ w->covered, w->n_bytes, -1 };
    w->covered = w->n_bytes;
    return PF_OK;
}
