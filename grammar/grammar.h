/*
 * Compiles a grammar into a pushdown automaton over bytes.
 *
 *      text in GBNF -> rules, each a graph of nodes: an edge reads a byte of a range, calls a rule, or reads nothing
 *
 *      root   ::= "{" ws pair ("," ws pair)* "}"       literals, groups, alternatives |, * + ? {m} {m,} {m,n}
 *      ws     ::= [ \t\n]*                              classes of characters, [^...], and . for any
 *      pair   ::= string ":" value                      # a comment
 *
 * Characters are code points of Unicode: a class becomes the bytes of their UTF-8. Escapes: \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH.
 * Rules may call each other and themselves, but none may reach itself before a byte is read (left recursion). Bounds: the constants below.
 *
 * Source: the grammars of llama.cpp (grammars/README.md) for the notation; Unicode Standard, table 3-7, for UTF-8.
 * Threads: a compiled grammar is immutable.
 */
#ifndef PF_GRAMMAR_H
#define PF_GRAMMAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pf_grammar pf_grammar;

enum {
    PF_GRAMMAR_MAX_SOURCE_BYTES = 1 << 20,
    PF_GRAMMAR_MAX_RULES = 2048,
    PF_GRAMMAR_MAX_NODES = 1 << 16,
    PF_GRAMMAR_MAX_GROUPS = 32, /* one inside the other */
    PF_GRAMMAR_MAX_REPEAT = 4096,
};

/* The rule `root` is the text. PF_FORMAT: names the line and what was expected; an unknown rule; left recursion.  PF_LIMIT: one of
 * the bounds.  PF_NOMEM. End it with pf_grammar_close. */
PF_MUST_USE pf_status pf_grammar_parse(const char *source, size_t n_bytes, pf_grammar **out, pf_error *error);
void pf_grammar_close(pf_grammar *grammar); /* NULL is fine */

#endif
