/*
 * The tokens that exist, and which of them has a text: bytes to ids.
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

/* A token that exists. Its bytes are its text; in a byte-level vocabulary what that stands for, where all its characters
 * are stand-ins ("\u0120", a space). An added token's text, unless the vocabulary has it, stands for itself as it is looked
 * for, and is decoded like any other. */
typedef struct {
    char *bytes;   /* owned; NULL: no token has this id */
    char *decoded; /* [n_decoded] what the decoder makes of it alone; owned; NULL: its bytes */
    uint32_t n_bytes, n_decoded;
    bool is_byte; /* that is one byte of a run of such tokens */
    bool is_added;
    bool in_model; /* a piece of text can be it (ignore_merges) */
    pf_added_flags flags;
} pf_token;

/* Open addressing over the tokens' own bytes. Zeroed, it has none. */
typedef struct {
    int32_t *ids;   /* -1: empty */
    size_t n_slots; /* a power of two */
    uint64_t seed;  /* of its hashes */
} pf_token_index;

/* Room for n_tokens. PF_NOMEM. Its ids are freed with free(). */
PF_MUST_USE pf_status pf_token_index_reserve(pf_token_index *index, size_t n_tokens);

/* Of two with the same bytes the later one is found. At most as many as were reserved; `tokens` has the id's bytes. */
void pf_token_index_add(pf_token_index *index, const pf_token *tokens, int32_t id);

/* -1: there is none. */
int32_t pf_token_index_find(const pf_token_index *index, const pf_token *tokens, const char *bytes, size_t n_bytes);

#endif
