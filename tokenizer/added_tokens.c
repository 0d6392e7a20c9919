/*
 * A trie over bytes; the first byte through a table of 256. At each place of a text it is walked as far as it goes:
 * a token is some tens of bytes long, and PF_MAX_ADDED_TOKEN_BYTES bounds what a hostile file can ask for.
 */
#include "tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/character_bytes.h"
#include "tokenizer/characters.h"

typedef struct {
    unsigned char byte;
    int32_t child, sibling; /* nodes; 0: none */
    int32_t token;          /* that ends here; -1: none */
} node;

typedef struct {
    int32_t id;
    pf_added_flags flags;
    bool is_ignored;
} added_token;

struct pf_added_matcher {
    int32_t first[256]; /* nodes; 0: none */
    node *nodes;        /* [0] is not used */
    size_t n_nodes, node_capacity;
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
    for (size_t i = 0; i < n_bytes; i++) {
        const unsigned char byte = (unsigned char)text[i];
        int32_t *head = i == 0 ? &m->first[byte] : &m->nodes[at].child;
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
    m->tokens[m->n_tokens++] = (added_token){ .id = id, .flags = flags, .is_ignored = is_ignored };
    return PF_OK;
}

/* --- matching --- */

/* The longest token that begins at `at`; -1: none. */
static int32_t longest_at(const pf_added_matcher *m, const char *text, size_t n, size_t at, size_t *end)
{
    int32_t best = -1, place = m->first[(unsigned char)text[at]];
    while (place) {
        at++;
        if (m->nodes[place].token >= 0) {
            best = m->nodes[place].token;
            *end = at;
        }
        place = at < n ? find(m, m->nodes[place].child, (unsigned char)text[at]) : 0;
    }
    return best;
}

static bool touches_word(const pf_added_walk *w, size_t begin, size_t end)
{
    size_t next;
    return (begin > 0 && pf_is_word(pf_character_at(w->text, pf_character_before(w->text, begin), &next))) ||
           (end < w->n_bytes && pf_is_word(pf_character_at(w->text, end, &next)));
}

static size_t strip_left(const pf_added_walk *w, size_t begin)
{
    while (begin > w->covered) { /* what the token before took is gone */
        size_t next;
        const size_t before = pf_character_before(w->text, begin);
        if (!pf_is_white_space(pf_character_at(w->text, before, &next))) break;
        begin = before;
    }
    return begin > w->covered ? begin : w->covered;
}

/* Where the run of white space at `end` ends. The last run is kept: many tokens may stand in it. */
static size_t strip_right(pf_added_walk *w, size_t end)
{
    if (end >= w->run_begin && end < w->run_end) return w->run_end;
    w->run_begin = end;
    for (size_t next; end < w->n_bytes; end = next)
        if (!pf_is_white_space(pf_character_at(w->text, end, &next))) break;
    w->run_end = end;
    return end;
}

bool pf_added_matcher_next(const pf_added_matcher *m, pf_added_walk *w, pf_added_part *out)
{
    if (w->has_pending) {
        w->has_pending = false;
        *out = w->pending;
        return true;
    }
    while (w->scanned < w->n_bytes) {
        size_t begin = w->scanned, end = 0;
        const int32_t token = longest_at(m, w->text, w->n_bytes, begin, &end);
        w->scanned = token < 0 ? begin + 1 : end;
        if (token < 0) continue;
        const pf_added_flags flags = m->tokens[token].flags;
        if (m->tokens[token].is_ignored) continue;
        if (flags.single_word && touches_word(w, begin, end)) continue;
        if (flags.lstrip) begin = strip_left(w, begin);
        if (flags.rstrip) end = strip_right(w, end);

        if (begin >= end) continue; /* the white space that it is has gone to the token before it */

        const pf_added_part part = { begin, end, m->tokens[token].id };
        const bool between = begin > w->covered;
        *out = between ? (pf_added_part){ w->covered, begin, -1 } : part;
        w->has_pending = between;
        w->pending = part;
        w->covered = end;
        return true;
    }
    if (w->covered >= w->n_bytes) return false;
    *out = (pf_added_part){ w->covered, w->n_bytes, -1 };
    w->covered = w->n_bytes;
    return true;
}
