/*
 * Remembers the tokens of short pieces, because texts repeat words: one slot for each hash, of which the last piece stays.
 *
 * Internal to tokenizer/. Used by one thread, for one tokenizer.
 */
#ifndef PF_TOKENIZER_PIECE_CACHE_H
#define PF_TOKENIZER_PIECE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/encode/tokens.h"

enum {
    PF_CACHED_BYTES = 38, /* of a piece, at most; a slot fills a cache line */
    PF_CACHED_TOKENS = 6, /* at most */
    PF_CACHE_SLOTS = 1 << 14,
};

typedef struct pf_piece_slot pf_piece_slot;

/* Zeroed: it holds nothing, and stores nothing. */
typedef struct {
    pf_piece_slot *slots; /* [n_slots] */
    size_t n_slots;       /* a power of two */
    uint64_t seed;
} pf_piece_cache;

/* For a text of n_bytes; for a short one there is no cache. PF_NOMEM. */
PF_MUST_USE pf_status pf_piece_cache_create(pf_piece_cache *cache, size_t n_bytes);
void pf_piece_cache_clear(pf_piece_cache *cache);

/* Appends the tokens of piece [n_bytes, at least 1] and sets *found, if it is there. PF_NOMEM, PF_LIMIT. */
PF_MUST_USE pf_status pf_piece_cache_find(const pf_piece_cache *cache, const char *piece, size_t n_bytes,
                                          pf_tokens *out, bool *found);

/* Stores ids [n] of piece [n_bytes, at least 1] if both are short. */
void pf_piece_cache_put(pf_piece_cache *cache, const char *piece, size_t n_bytes, const int32_t *ids, size_t n);

#endif
