/*
 * Counts all strings of up to PF_SUFFIX_DEPTH tokens in a growing text, and finds the most frequent tokens behind one.
 *
 * A suffix tree that is cut at that depth:
 *
 *      text     a b a b c | a b d           root -- "a b" x3 --+-- "a b c" x1
 *               documents, with a break                |       +-- "c" x1
 *               between two                            |       +-- "d" x1
 *                                                      +- "b" x3 -- ...
 *
 * A node is the string of the edges from the root to it. Its count is how often that string, up to the first token of its edge, has
 * occurred. A suffix that has occurred once is a leaf: an edge that is read from the text, so it grows with the text by itself.
 *
 * A suffix of the text that has occurred before has a walker, which stands at its place in the tree. A token moves each walker a
 * token down, and a new one down from the root. One that finds another token there leaves: it splits the edge and adds a leaf. So
 *
 *      nodes       at most two for each token
 *      append      O(1) amortised: one walker begins and ends for each token, and at most PF_SUFFIX_DEPTH move; nothing is allocated
 *      the most    and the second most frequent child are known of each node, since counts only grow
 *
 * The walkers of an edge have been counted at its first token, and not yet behind themselves: pf_suffix_tree_count subtracts them.
 *
 * Pure: no clock, no I/O. Memory: from the caller's arena. Threads: one at a time.
 *
 * Source: Ukkonen, Algorithmica 14, 1995 (suffix trees as the text grows); Na et al., Theor. Comput. Sci. 304, 2003 (cut at a
 * depth); Oliaro et al., arXiv:2411.04975, section 4.1 (counts in them for speculation).
 */
#ifndef PF_DRAFT_SUFFIX_TREE_H
#define PF_DRAFT_SUFFIX_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum {
    PF_SUFFIX_DEPTH = 64,   /* tokens of the longest string that is counted */
    PF_SUFFIX_PATTERN = 32, /* of the longest that pf_suffix_tree_find looks for */
    PF_SUFFIX_BREAK = -1,   /* in the text: the end of a document */
};

typedef struct {
    int32_t start,
        n; /* text[start .. start + n) is the edge to it; a leaf's n reaches the depth, past the text's end if need be */
    int32_t count; /* occurrences of the string that ends with the edge's first token */
    int32_t parent;
    int32_t best, second; /* the children of the highest counts, of equals the one that occurred last; 0: none */
} pf_suffix_node;

/* A place in the tree: so many tokens of the edge to a node. Of a leaf more than it has: on in the text. */
typedef struct {
    int32_t node, offset; /* 0, 0: the root, the empty string */
} pf_suffix_place;

typedef struct {
    int32_t *text; /* [max_tokens] */
    int32_t n_tokens, max_tokens;
    pf_suffix_node *nodes; /* [max_nodes]; the first is the root */
    int32_t n_nodes, max_nodes;
    int32_t *slots; /* [n_slots] of max_slots: nodes by (parent, first token), open addressing; 0: empty */
    int32_t n_slots, max_slots;
    uint64_t seed;                            /* of their hash: tokens are chosen by unknown clients */
    pf_suffix_place walkers[PF_SUFFIX_DEPTH]; /* [n_walkers] of the suffix of 1, 2, ... tokens */
    int32_t n_walkers;
} pf_suffix_tree;

/* A token that has followed a string. */
typedef struct {
    int32_t token, count;
    pf_suffix_place place; /* of the string with this token */
} pf_suffix_next;

/* Takes memory for a text of max_tokens, 1 .. 2^28, from the arena (or its measure), and none for the text itself. */
void pf_suffix_tree_lay_out(pf_suffix_tree *tree, int32_t max_tokens, pf_arena *arena);

/* Empties the tree. text [max_tokens]: the caller's memory, which the tree writes and reads until it is emptied again. Costs as much
 * as was used before. */
void pf_suffix_tree_reset(pf_suffix_tree *tree, int32_t *text);

/* Appends a token, not below 0. False: the text is full, and nothing has changed. */
bool pf_suffix_tree_append(pf_suffix_tree *tree, int32_t token);

/* Ends a document: no string spans the break. False as above. */
bool pf_suffix_tree_break(pf_suffix_tree *tree);

/* The longest suffix of the last document that has occurred before. Returns how many tokens it has, fewer than PF_SUFFIX_DEPTH; 0:
 * none has. */
int32_t pf_suffix_tree_repeated(const pf_suffix_tree *tree, pf_suffix_place *place);

/* The longest suffix of tokens [n], of at most PF_SUFFIX_PATTERN, that occurs in the text, its end included. Returns how many tokens
 * it has; 0: none does. */
int32_t pf_suffix_tree_find(const pf_suffix_tree *tree, const int32_t *tokens, int32_t n, pf_suffix_place *place);

/* How often the string of a place, of at least a token and at most PF_SUFFIX_DEPTH, has occurred. */
int32_t pf_suffix_tree_count(const pf_suffix_tree *tree, pf_suffix_place place);

/* The two tokens that have followed most often, the most frequent first; of equals the one that did last. Behind PF_SUFFIX_DEPTH
 * tokens there is one: that of the string's first occurrence. Returns how many there are; *n_ended: occurrences with an end, at a
 * token or at a break. */
int32_t pf_suffix_tree_next(const pf_suffix_tree *tree, pf_suffix_place place, pf_suffix_next next[2],
                            int32_t *n_ended);

/* The index in the text behind the first occurrence of a string: n_tokens or more where the text has not gone on yet. */
int32_t pf_suffix_tree_position(const pf_suffix_tree *tree, pf_suffix_place place);

#endif
