/*
 * Functions on draft trees: proposals in which each token names its parent.
 *
 *      tokens    a  b  c  x  y          the committed prefix -- a -- b -- c
 *      parents  -1  0  1 -1  0                              \     \
 *                                                            x     y
 *
 * Each token is a node; its parent comes before it, and -1 is the committed prefix. Parents NULL are a chain: every token
 * stands behind the one before it. Children of one node are alternatives, of which at most one is kept; so what is kept
 * is a path from the prefix, and its nodes ascend.
 *
 * Pure functions. `parents` [n] have been checked: -1 <= parents[i] < i, as pf_codec_decode_batch does.
 */
#ifndef PF_PROTO_TREE_H
#define PF_PROTO_TREE_H

#include <stdint.h>

/* The first child of `node` that is `token`, -1 where none is: the next node of a path at `node`. */
int32_t pf_tree_child(const int32_t *tokens, const int32_t *parents, int32_t n, int32_t node, int32_t token);

/* How many leading nodes are a chain; n where all are. */
int32_t pf_tree_chain(const int32_t *parents, int32_t n);

/* Nodes of the longest path; n at most PF_MAX_DRAFT_TOKENS (asserted). */
int32_t pf_tree_depth(const int32_t *parents, int32_t n);

#endif
