/*
 * Keeps the latest texts of clients in bounded memory, for lookups by the client that they came from.
 *
 *      segments    | client 1 | client 2 | client 1 | free | ...      each a suffix tree of its own (draft/suffix_tree.h)
 *
 * A segment belongs to one client: a text is never looked up for another one. A client without room takes a free segment, or else
 * the one that has gone longest without a new text, of any client: the oldest texts are evicted, a segment at a time. A text that
 * reaches the end of a segment goes on in the next, and no match spans the two.
 *
 * Pure: no clock, no I/O. Memory: from the caller's arena; nothing is allocated later. Threads: one at a time.
 */
#ifndef PF_DRAFT_SUFFIX_CORPUS_H
#define PF_DRAFT_SUFFIX_CORPUS_H

#include <stddef.h>

#include "draft/suffix_tree.h"

enum {
    PF_SUFFIX_SEGMENTS = 16,
    PF_SUFFIX_CORPUS_LEAST_BYTES = 64 << 10,
};

typedef struct {
    uint64_t client;
    uint64_t written; /* when it last got a text, as counted by texts; 0: it is free */
    int32_t *text;
    pf_suffix_tree tree;
} pf_suffix_segment;

typedef struct {
    pf_suffix_segment *segments; /* [PF_SUFFIX_SEGMENTS] */
    uint64_t n_texts;
} pf_suffix_corpus;

/* Takes at most n_bytes, at least PF_SUFFIX_CORPUS_LEAST_BYTES, from the arena (or its measure). */
void pf_suffix_corpus_lay_out(pf_suffix_corpus *corpus, size_t n_bytes, pf_arena *arena);

/* Adds a text [n], tokens not below 0. */
void pf_suffix_corpus_add(pf_suffix_corpus *corpus, uint64_t client, const int32_t *tokens, int32_t n);

/* The longest suffix of tokens [n] in the client's texts, as pf_suffix_tree_find; of several segments, in the one that was written
 * last. *tree is where its place is, borrowed until a text is added. */
int32_t pf_suffix_corpus_find(const pf_suffix_corpus *corpus, uint64_t client, const int32_t *tokens, int32_t n,
                              const pf_suffix_tree **tree, pf_suffix_place *place);

#endif
