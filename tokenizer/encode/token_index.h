/*
 * Finds a token's id by its bytes.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_TOKEN_INDEX_H
#define PF_TOKENIZER_TOKEN_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/encode/added_tokens.h"

/* A token of the vocabulary. Its bytes are its text; in a byte-level vocabulary the bytes that its characters map to, if all
 * of them do ("\u0120" is a space). An added token that the vocabulary lacks has its text as bytes. */
typedef struct {
    char *bytes;   /* owned; NULL: no token has this id */
    char *decoded; /* [n_decoded] after the token steps of the decoder; owned; NULL: equal to bytes */
    uint32_t n_bytes, n_decoded;
    bool is_byte; /* a byte token, part of a run (ByteFallback) */
    bool is_added;
    bool in_model; /* a piece of text can equal it (ignore_merges) */
    pf_added_flags flags;
} pf_token;

/* Hash table with open addressing over the tokens' bytes. A zeroed index is empty. */
typedef struct {
    int32_t *ids;   /* -1: empty */
    size_t n_slots; /* a power of two */
    uint64_t seed;  /* of the hash */
} pf_token_index;

/* Allocates the table for n_tokens. PF_NOMEM. The caller frees index->ids. */
PF_MUST_USE pf_status pf_token_index_reserve(pf_token_index *index, size_t n_tokens);

/* Adds tokens[id]; it replaces one with the same bytes. At most as many as were reserved. */
void pf_token_index_add(pf_token_index *index, const pf_token *tokens, int32_t id);

/* -1: there is none. */
int32_t pf_token_index_find(const pf_token_index *index, const pf_token *tokens, const char *bytes, size_t n_bytes);

#endif
