/* The states of a text in a grammar. */
#include "grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/automaton.h"

enum { UNKNOWN = -2, FIRST_TABLE = 256 };

/* A node above the cell `parent`: where the rule is, and where its callers go on. Cell 0 is below all stacks. */
typedef struct {
    int32_t parent, node, depth;
    uint32_t seen; /* the closure that has had it last */
} cell;

typedef struct {
    size_t first; /* of members */
    int32_t n;    /* cells that read a byte next, sorted */
    bool accepts;
    int32_t *next; /* [256] states; UNKNOWN; NULL: no step was made yet */
} state;

typedef struct {
    int32_t state; /* -1: none */
    uint32_t *words;
} mask;

struct pf_matcher {
    const pf_grammar *grammar;
    const pf_token_order *order;
    pf_status status;
    cell *cells;
    int32_t n_cells, cells_capacity;
    state *states;
    int32_t n_states, states_capacity;
    int32_t *members;
    size_t n_members, members_capacity;
    int32_t *cell_table, *state_table; /* open addressing; -1: free; [capacity] powers of two */
    int32_t cell_table_size, state_table_size;
    uint32_t closure; /* the number of the latest */

    /* The state that is made. */
    int32_t *made; /* [PF_MATCHER_MAX_STACKS] */
    int32_t n_made;
    bool made_accepts;
    int32_t *work; /* [PF_MATCHER_MAX_CELLS] */
    int32_t n_work;

    mask masks[PF_MATCHER_MASKS];
    int32_t next_mask;
    int32_t *path; /* [order->longest + 1] states of a walk */
};

static void give_up(pf_matcher *m, pf_status status)
{
    if (m->status == PF_OK) m->status = status;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9e3779b1u;
    return hash ^ hash >> 15;
}

static bool grow(void **array, size_t n, size_t size)
{
    void *grown = realloc(*array, n * size);
    if (grown) *array = grown;
    return grown != NULL;
}

/* A table of twice the size, empty. */
static bool renew_table(int32_t **table, int32_t *size)
{
    const int32_t more = *size > 0 ? 2 * *size : FIRST_TABLE;
    if (!grow((void **)table, (size_t)more, sizeof **table)) return false;
    for (int32_t i = 0; i < more; i++) (*table)[i] = -1;
    *size = more;
    return true;
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

static int32_t *cell_place(const pf_matcher *m, int32_t parent, int32_t node)
{
    uint32_t at = mix(mix(1, (uint32_t)parent), (uint32_t)node);
    for (;; at++) {
        int32_t *place = &m->cell_table[at & (uint32_t)(m->cell_table_size - 1)];
        if (*place < 0 || (m->cells[*place].parent == parent && m->cells[*place].node == node)) return place;
    }
}

static bool make_room_for_cell(pf_matcher *m)
{
    if (m->n_cells == m->cells_capacity) {
        const int32_t more = m->cells_capacity > 0 ? 2 * m->cells_capacity : FIRST_TABLE;
        if (!grow((void **)&m->cells, (size_t)more, sizeof *m->cells)) return false;
        m->cells_capacity = more;
    }
    if (2 * (m->n_cells + 1) <= m->cell_table_size) return true;
    if (!renew_table(&m->cell_table, &m->cell_table_size)) return false;
    for (int32_t i = 1; i < m->n_cells; i++) *cell_place(m, m->cells[i].parent, m->cells[i].node) = i;
    return true;
}

/* -1: it would be too deep, or there is no room. */
static int32_t cell_of(pf_matcher *m, int32_t parent, int32_t node)
{
    if (m->cell_table_size > 0) {
        const int32_t found = *cell_place(m, parent, node);
        if (found >= 0) return found;
    }
    const int32_t depth = m->cells[parent].depth + 1;
    if (depth > PF_MATCHER_MAX_DEPTH) return -1;
    if (m->n_cells == PF_MATCHER_MAX_CELLS || !make_room_for_cell(m)) {
        give_up(m, m->n_cells == PF_MATCHER_MAX_CELLS ? PF_LIMIT : PF_NOMEM);
        return -1;
    }
    *cell_place(m, parent, node) = m->n_cells;
    m->cells[m->n_cells] = (cell){ .parent = parent, .node = node, .depth = depth };
    return m->n_cells++;
}

/* ---- closure: all cells that are reached without a byte ------------------------------------------------------------ */

static void begin_closure(pf_matcher *m)
{
    m->closure++;
    m->n_made = m->n_work = 0;
    m->made_accepts = false;
}

static void reach(pf_matcher *m, int32_t parent, int32_t node)
{
    const int32_t c = cell_of(m, parent, node);
    if (c < 0 || m->cells[c].seen == m->closure) return;
    m->cells[c].seen = m->closure;
    m->work[m->n_work++] = c;
}

static void close_over(pf_matcher *m, int32_t c)
{
    const pf_grammar *g = m->grammar;
    const int32_t parent = m->cells[c].parent, at = m->cells[c].node;
    bool reads = false;
    for (int32_t e = g->nodes[at].edges; e >= 0; e = g->edges[e].next) {
        const pf_edge *edge = &g->edges[e];
        if (edge->kind == PF_EDGE_BYTES) {
            reads = true;
        } else if (edge->kind == PF_EDGE_EMPTY) {
            reach(m, parent, edge->to);
        } else {
            const int32_t below = g->nodes[edge->to].is_tail ? parent : cell_of(m, parent, edge->to);
            if (below >= 0) reach(m, below, g->rules[edge->rule].begin);
        }
    }
    if (g->nodes[at].is_end && parent == 0) m->made_accepts = true;
    if (g->nodes[at].is_end && parent != 0) reach(m, m->cells[parent].parent, m->cells[parent].node);
    if (!reads) return;
    if (m->n_made == PF_MATCHER_MAX_STACKS)
        give_up(m, PF_LIMIT);
    else
        m->made[m->n_made++] = c;
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static int32_t *state_place(const pf_matcher *m, const int32_t *members, int32_t n, bool accepts)
{
    uint32_t at = accepts;
    for (int32_t i = 0; i < n; i++) at = mix(at, (uint32_t)members[i]);
    for (;; at++) {
        int32_t *place = &m->state_table[at & (uint32_t)(m->state_table_size - 1)];
        const state *s = *place < 0 ? NULL : &m->states[*place];
        if (!s || (s->n == n && s->accepts == accepts &&
                   memcmp(m->members + s->first, members, (size_t)n * sizeof *members) == 0))
            return place;
    }
}

static bool make_room_for_state(pf_matcher *m, int32_t n)
{
    if (m->n_states == m->states_capacity) {
        const int32_t more = m->states_capacity > 0 ? 2 * m->states_capacity : FIRST_TABLE;
        if (!grow((void **)&m->states, (size_t)more, sizeof *m->states)) return false;
        m->states_capacity = more;
    }
    if (m->n_members + (size_t)n >= m->members_capacity) { /* an empty state, too, has a place */
        const size_t more = 2 * (m->n_members + (size_t)n) + FIRST_TABLE;
        if (!grow((void **)&m->members, more, sizeof *m->members)) return false;
        m->members_capacity = more;
    }
    if (2 * (m->n_states + 1) <= m->state_table_size) return true;
    if (!renew_table(&m->state_table, &m->state_table_size)) return false;
    for (int32_t i = 0; i < m->n_states; i++) {
        const state *s = &m->states[i];
        *state_place(m, m->members + s->first, s->n, s->accepts) = i;
    }
    return true;
}

/* The state of what is reached from the cells in `work`. */
static int32_t end_closure(pf_matcher *m)
{
    while (m->n_work > 0) close_over(m, m->work[--m->n_work]);
    if (m->status != PF_OK || (m->n_made == 0 && !m->made_accepts)) return PF_MATCHER_DEAD;
    qsort(m->made, (size_t)m->n_made, sizeof *m->made, by_number);
    if (m->state_table_size > 0) {
        const int32_t found = *state_place(m, m->made, m->n_made, m->made_accepts);
        if (found >= 0) return found;
    }
    if (m->n_states == PF_MATCHER_MAX_STATES || !make_room_for_state(m, m->n_made)) {
        give_up(m, m->n_states == PF_MATCHER_MAX_STATES ? PF_LIMIT : PF_NOMEM);
        return PF_MATCHER_DEAD;
    }
    *state_place(m, m->made, m->n_made, m->made_accepts) = m->n_states;
    m->states[m->n_states] = (state){ .first = m->n_members, .n = m->n_made, .accepts = m->made_accepts };
    memcpy(m->members + m->n_members, m->made, (size_t)m->n_made * sizeof *m->made);
    m->n_members += (size_t)m->n_made;
    return m->n_states++;
}

static int32_t make_step(pf_matcher *m, int32_t from, uint8_t byte)
{
    const pf_grammar *g = m->grammar;
    begin_closure(m);
    for (int32_t i = 0; i < m->states[from].n; i++) {
        const cell c = m->cells[m->members[m->states[from].first + (size_t)i]]; /* reach may move cells */
        for (int32_t e = g->nodes[c.node].edges; e >= 0; e = g->edges[e].next) {
            const pf_edge *edge = &g->edges[e];
            if (edge->kind != PF_EDGE_BYTES || byte < edge->low || byte > edge->high) continue;
            reach(m, c.parent, edge->to);
        }
    }
    return end_closure(m);
}

int32_t pf_matcher_step(pf_matcher *m, int32_t from, uint8_t byte)
{
    enum { BYTES = 256 };
    if (from < 0) return PF_MATCHER_DEAD;
    int32_t *next = m->states[from].next;
    if (!next) {
        next = malloc(BYTES * sizeof *next);
        if (!next) {
            give_up(m, PF_NOMEM);
            return PF_MATCHER_DEAD;
        }
        for (int32_t i = 0; i < BYTES; i++) next[i] = UNKNOWN;
        m->states[from].next = next;
    }
    if (next[byte] == UNKNOWN) next[byte] = make_step(m, from, byte);
    return next[byte];
}

int32_t pf_matcher_advance(pf_matcher *m, int32_t from, int32_t token)
{
    int32_t n = 0;
    const char *text = pf_token_order_text(m->order, token, &n);
    if (!text) return PF_MATCHER_DEAD;
    for (int32_t i = 0; i < n && from >= 0; i++) from = pf_matcher_step(m, from, (uint8_t)text[i]);
    return from;
}

bool pf_matcher_accepts(const pf_matcher *m, int32_t at)
{
    return at >= 0 && m->states[at].accepts;
}

pf_status pf_matcher_status(const pf_matcher *m)
{
    return m->status;
}

/* ---- allowed tokens ---------------------------------------------------------------------------------------------- */

/* path[i] is the state behind i bytes of the token before; behind n_alive bytes it was dead. */
static void walk_tokens(pf_matcher *m, int32_t from, uint32_t *words)
{
    const pf_token_order *o = m->order;
    int32_t n_alive = 0;
    m->path[0] = from;
    for (int32_t k = 0; k < o->n; k++) {
        const pf_ordered_token *t = &o->tokens[k];
        const char *text = o->bytes + t->text;
        if (t->shared > n_alive) continue; /* it begins with what was dead */
        n_alive = t->shared;
        while (n_alive < t->n_bytes) {
            const int32_t next = pf_matcher_step(m, m->path[n_alive], (uint8_t)text[n_alive]);
            if (next < 0) break;
            m->path[++n_alive] = next;
        }
        if (n_alive == t->n_bytes) words[t->id / 32] |= 1u << (t->id % 32);
    }
}

const uint32_t *pf_matcher_allowed(pf_matcher *m, int32_t at)
{
    const size_t n_words = (size_t)m->order->n_ids / 32 + 1;
    for (int32_t i = 0; i < PF_MATCHER_MASKS; i++)
        if (m->masks[i].words && m->masks[i].state == at) return m->masks[i].words;
    mask *made = &m->masks[m->next_mask];
    if (at < 0 || m->status != PF_OK) return NULL;
    if (!made->words) made->words = malloc(n_words * sizeof *made->words);
    if (!made->words) {
        give_up(m, PF_NOMEM);
        return NULL;
    }
    made->state = UNKNOWN;
    memset(made->words, 0, n_words * sizeof *made->words);
    walk_tokens(m, at, made->words);
    if (m->status != PF_OK) return NULL;
    made->state = at;
    m->next_mask = (m->next_mask + 1) % PF_MATCHER_MASKS;
    return made->words;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static pf_status start(pf_matcher *m)
{
    m->made = malloc((size_t)PF_MATCHER_MAX_STACKS * sizeof *m->made);
    m->work = malloc((size_t)PF_MATCHER_MAX_CELLS * sizeof *m->work);
    m->path = malloc(((size_t)m->order->longest + 1) * sizeof *m->path);
    if (!m->made || !m->work || !m->path || !make_room_for_cell(m)) return PF_NOMEM;
    m->cells[0] = (cell){ .parent = -1, .node = -1 };
    m->n_cells = 1;
    begin_closure(m);
    reach(m, 0, m->grammar->rules[m->grammar->root].begin);
    if (end_closure(m) < 0 && m->status == PF_OK) return PF_FORMAT;
    return m->status;
}

pf_status pf_matcher_create(const pf_grammar *grammar, const pf_token_order *order, pf_matcher **out)
{
    pf_matcher *m = calloc(1, sizeof *m);
    if (!m) return PF_NOMEM;
    m->grammar = grammar;
    m->order = order;
    const pf_status status = start(m);
    if (status == PF_OK)
        *out = m;
    else
        pf_matcher_destroy(m);
    return status;
}

void pf_matcher_destroy(pf_matcher *m)
{
    if (!m) return;
    for (int32_t i = 0; i < m->n_states; i++) free(m->states[i].next);
    for (int32_t i = 0; i < PF_MATCHER_MASKS; i++) free(m->masks[i].words);
    free(m->cells);
    free(m->states);
    free(m->members);
    free(m->cell_table);
    free(m->state_table);
    free(m->made);
    free(m->work);
    free(m->path);
    free(m);
}
