/* The graph of a grammar: how it grows, characters as bytes, and what is known of rules once all are there. */
#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

/* ---- growing ----------------------------------------------------------------------------------------------------- */

/* Room for one more of `size` bytes. */
static bool reserve(void **array, int32_t n, int32_t *capacity, size_t size)
{
    enum { FIRST = 64 };
    if (n < *capacity) return true;
    const int32_t more = *capacity > 0 ? 2 * *capacity : FIRST;
    void *grown = realloc(*array, (size_t)more * size);
    if (!grown) return false;
    *array = grown;
    *capacity = more;
    return true;
}

int32_t pf_grammar_add_node(pf_grammar *g, pf_status *status)
{
    if (*status != PF_OK) return -1;
    if (g->n_nodes >= PF_GRAMMAR_MAX_NODES)
        *status = PF_LIMIT;
    else if (!reserve((void **)&g->nodes, g->n_nodes, &g->nodes_capacity, sizeof *g->nodes))
        *status = PF_NOMEM;
    if (*status != PF_OK) return -1;
    g->nodes[g->n_nodes] = (pf_node){ .edges = -1 };
    return g->n_nodes++;
}

void pf_grammar_add_edge(pf_grammar *g, int32_t from, pf_edge edge, pf_status *status)
{
    if (*status != PF_OK) return;
    if (g->n_edges >= 4 * PF_GRAMMAR_MAX_NODES)
        *status = PF_LIMIT;
    else if (!reserve((void **)&g->edges, g->n_edges, &g->edges_capacity, sizeof *g->edges))
        *status = PF_NOMEM;
    if (*status != PF_OK) return;
    edge.next = g->nodes[from].edges;
    g->nodes[from].edges = g->n_edges;
    g->edges[g->n_edges++] = edge;
}

/* ---- characters -------------------------------------------------------------------------------------------------- */

static int32_t encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    const int32_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int32_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)((0xf00u >> n & 0xf0) | c);
    return n;
}

/* Of one length, and such that all but one of its bytes are equal or a full range: one chain. */
static void add_chain(pf_grammar *g, int32_t from, int32_t to, uint32_t low, uint32_t high, pf_status *status)
{
    uint8_t a[4], b[4];
    const int32_t n = encode(low, a);
    (void)encode(high, b);
    for (int32_t i = 0; i < n && *status == PF_OK; i++) {
        const int32_t next = i + 1 < n ? pf_grammar_add_node(g, status) : to;
        pf_grammar_add_edge(g, from, (pf_edge){ .kind = PF_EDGE_BYTES, .low = a[i], .high = b[i], .to = next }, status);
        from = next;
    }
}

/* Of one length: cut where the trailing bytes are no full range. */
static void add_of_length(pf_grammar *g, int32_t from, int32_t to, uint32_t low, uint32_t high, pf_status *status)
{
    for (int32_t i = 1; i < 4; i++) {
        const uint32_t mask = (1u << (6 * i)) - 1;
        if (low < 0x80 || (low & ~mask) == (high & ~mask)) continue;
        if ((low & mask) != 0) {
            add_of_length(g, from, to, low, low | mask, status);
            add_of_length(g, from, to, (low | mask) + 1, high, status);
            return;
        }
        if ((high & mask) != mask) {
            add_of_length(g, from, to, low, (high & ~mask) - 1, status);
            add_of_length(g, from, to, high & ~mask, high, status);
            return;
        }
    }
    add_chain(g, from, to, low, high, status);
}

void pf_grammar_add_characters(pf_grammar *g, int32_t from, int32_t to, uint32_t low, uint32_t high, pf_status *status)
{
    static const uint32_t parts[][2] = {
        { 0, 0x7f }, { 0x80, 0x7ff }, { 0x800, 0xd7ff }, { 0xe000, 0xffff }, { 0x10000, 0x10ffff }
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const uint32_t first = low > parts[i][0] ? low : parts[i][0], last = high < parts[i][1] ? high : parts[i][1];
        if (first <= last) add_of_length(g, from, to, first, last, status);
    }
}

/* ---- what is known of rules ---------------------------------------------------------------------------------------- */

/* A longer way to the end is taken for none: a call there then keeps a place of the stack. */
static void mark_tails(pf_grammar *g)
{
    enum { MOST_STEPS = 64 };
    for (int32_t i = 0; i < g->n_rules; i++)
        g->nodes[g->rules[i].end].is_end = g->nodes[g->rules[i].end].is_tail = true;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        int32_t at = i;
        for (int32_t steps = 0; steps < MOST_STEPS && !g->nodes[at].is_tail; steps++) {
            const int32_t e = g->nodes[at].edges;
            if (e < 0 || g->edges[e].next >= 0 || g->edges[e].kind != PF_EDGE_EMPTY || g->edges[e].to == at) break;
            at = g->edges[e].to;
        }
        g->nodes[i].is_tail = g->nodes[at].is_tail;
    }
}

/* The nodes that a rule reaches before a byte; *calls gets the rules that it calls there, as marks. stack, marks: room of one a node. */
typedef struct {
    int32_t *stack; /* [n_nodes] */
    uint8_t *seen;  /* [n_nodes] zero but during a walk */
    int32_t *walked;
} walk_room;

typedef struct {
    bool is_nullable;
    int32_t n_walked; /* of room->walked */
} walk;

static walk walk_rule(const pf_grammar *g, int32_t rule, walk_room *room)
{
    walk w = { 0 };
    int32_t n = 0;
    room->stack[n++] = g->rules[rule].begin;
    room->seen[g->rules[rule].begin] = 1;
    while (n > 0) {
        const int32_t at = room->stack[--n];
        room->walked[w.n_walked++] = at;
        if (at == g->rules[rule].end) w.is_nullable = true;
        for (int32_t e = g->nodes[at].edges; e >= 0; e = g->edges[e].next) {
            const pf_edge *edge = &g->edges[e];
            const bool passes =
                edge->kind == PF_EDGE_EMPTY || (edge->kind == PF_EDGE_CALL && g->rules[edge->rule].is_nullable);
            if (!passes || room->seen[edge->to]) continue;
            room->seen[edge->to] = 1;
            room->stack[n++] = edge->to;
        }
    }
    for (int32_t i = 0; i < w.n_walked; i++) room->seen[room->walked[i]] = 0;
    return w;
}

static void find_nullable(pf_grammar *g, walk_room *room)
{
    bool changes = true;
    while (changes) {
        changes = false;
        for (int32_t i = 0; i < g->n_rules; i++) {
            if (g->rules[i].is_nullable || !walk_rule(g, i, room).is_nullable) continue;
            g->rules[i].is_nullable = changes = true;
        }
    }
}

enum { WHITE, GREY, BLACK };

/* Depth first over the calls before a byte. The depth is at most the number of rules. */
static pf_status visit(const pf_grammar *g, int32_t rule, uint8_t *colours, walk_room *room, pf_error *error)
{
    colours[rule] = GREY;
    const walk w = walk_rule(g, rule, room);
    int32_t *walked = malloc(((size_t)w.n_walked + 1) * sizeof *walked);
    if (!walked) return pf_fail(error, PF_NOMEM, "no memory for the grammar");
    memcpy(walked, room->walked, (size_t)w.n_walked * sizeof *walked);
    pf_status status = PF_OK;
    for (int32_t i = 0; i < w.n_walked && status == PF_OK; i++) {
        for (int32_t e = g->nodes[walked[i]].edges; e >= 0 && status == PF_OK; e = g->edges[e].next) {
            const pf_edge *edge = &g->edges[e];
            if (edge->kind != PF_EDGE_CALL || colours[edge->rule] == BLACK) continue;
            if (colours[edge->rule] == GREY)
                status =
                    pf_fail(error, PF_FORMAT, "the rule %s reaches itself before it reads anything (left recursion)",
                            g->rules[edge->rule].name);
            else
                status = visit(g, edge->rule, colours, room, error);
        }
    }
    free(walked);
    colours[rule] = BLACK;
    return status;
}

pf_status pf_grammar_finish(pf_grammar *g, pf_error *error)
{
    const size_t n = (size_t)g->n_nodes + 1;
    walk_room room = { malloc(n * sizeof *room.stack), calloc(n, 1), malloc(n * sizeof *room.walked) };
    uint8_t *colours = calloc((size_t)g->n_rules + 1, 1);
    pf_status status = room.stack && room.seen && room.walked && colours
                           ? PF_OK
                           : pf_fail(error, PF_NOMEM, "no memory for the grammar");
    if (status == PF_OK) {
        mark_tails(g);
        find_nullable(g, &room);
    }
    for (int32_t i = 0; i < g->n_rules && status == PF_OK; i++)
        if (colours[i] == WHITE) status = visit(g, i, colours, &room, error);
    free(room.stack);
    free(room.seen);
    free(room.walked);
    free(colours);
    return status;
}

void pf_grammar_close(pf_grammar *g)
{
    if (!g) return;
    free(g->nodes);
    free(g->edges);
    free(g->rules);
    free(g);
}
