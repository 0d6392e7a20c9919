/*
 * Sorts the texts of a vocabulary, so that a walk over all tokens shares the steps of their common beginnings: a token trie in two arrays.
 *
 *      texts     a  ab  abc  b  ba           each token is walked from the byte in which it differs from the one before
 *      shared    0   1    2  0   1
 *
 * Immutable once made; any thread.
 */
#ifndef PF_GRAMMAR_TOKEN_ORDER_H
#define PF_GRAMMAR_TOKEN_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    int32_t id;
    int32_t n_bytes; /* at least 1 */
    int32_t shared;  /* bytes that it begins with like the token before */
    size_t text;     /* where its bytes are */
} pf_ordered_token;

typedef struct {
    pf_ordered_token *tokens; /* [n] by their bytes */
    int32_t n, n_ids;
    int32_t longest; /* bytes */
    int32_t *places; /* [n_ids] index in tokens; -1: the id has no text */
    char *bytes;
} pf_token_order;

/* text: the bytes of an id, *n_bytes of them, borrowed until the next call; NULL or 0 bytes: it has none and is never allowed.
 * PF_NOMEM, PF_LIMIT: more bytes than fit. End it with pf_token_order_clear. */
PF_MUST_USE pf_status pf_token_order_make(int32_t n_ids, const char *(*text)(void *user, int32_t id, size_t *n_bytes),
                                          void *user, pf_token_order *out);
void pf_token_order_clear(pf_token_order *order); /* zeroed is fine */

/* The bytes of an id; NULL: it has none. */
const char *pf_token_order_text(const pf_token_order *order, int32_t id, int32_t *n_bytes);

#endif
