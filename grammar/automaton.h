/* Holds the graph of a compiled grammar. Internal to grammar/. */
#ifndef PF_GRAMMAR_AUTOMATON_H
#define PF_GRAMMAR_AUTOMATON_H

#include <stdbool.h>

#include "grammar/grammar.h"

typedef enum { PF_EDGE_BYTES, PF_EDGE_CALL, PF_EDGE_EMPTY } pf_edge_kind;

typedef struct {
    uint8_t kind;      /* pf_edge_kind */
    uint8_t low, high; /* BYTES: the range */
    int32_t rule;      /* CALL */
    int32_t to;        /* the node behind it */
    int32_t next;      /* the next edge of the same node; -1: none */
} pf_edge;

typedef struct {
    int32_t edges; /* the first; -1: none */
    bool is_end;   /* of its rule: it has no edges */
    bool is_tail;  /* nothing but the end of its rule follows, without a byte */
} pf_node;

typedef struct {
    char name[64];
    int32_t begin, end; /* nodes; -1: it is called and not defined yet */
    bool is_nullable;   /* it may read nothing */
} pf_rule;

struct pf_grammar {
    pf_node *nodes;
    pf_edge *edges;
    pf_rule *rules;
    int32_t n_nodes, n_edges, n_rules, root;
    int32_t nodes_capacity, edges_capacity, rules_capacity;
};

/* Adding to it. -1: no memory, or a bound: *status says which. */
int32_t pf_grammar_add_node(pf_grammar *g, pf_status *status);
void pf_grammar_add_edge(pf_grammar *g, int32_t from, pf_edge edge, pf_status *status);

/* Edges from `from` to `to` for the UTF-8 of the code points low .. high; surrogates have none. */
void pf_grammar_add_characters(pf_grammar *g, int32_t from, int32_t to, uint32_t low, uint32_t high, pf_status *status);

/* Once all rules are there: marks nodes and rules, and refuses left recursion. PF_FORMAT, PF_NOMEM. */
PF_MUST_USE pf_status pf_grammar_finish(pf_grammar *g, pf_error *error);

#endif
