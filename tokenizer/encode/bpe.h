/*
 * Encodes one piece by byte-pair encoding: its bytes or characters become tokens, then the adjacent pair with the lowest
 * merge rank (the leftmost of equals) is merged until no pair can be.
 *
 * Internal to tokenizer/. Immutable after it is built; the scratch is used by one thread.
 */
#ifndef PF_TOKENIZER_BPE_H
#define PF_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/encode/tokens.h"

typedef struct {
    int32_t left, right; /* ids; left is -1 in an empty slot */
    int32_t rank, merged;
} pf_merge;

typedef struct {
    int32_t code_point; /* -1 in an empty slot */
    int32_t id;
} pf_bpe_character;

/* Pairs of characters that stand side by side in some token. Merges never cross another pair, so a piece may be cut there. */
typedef struct {
    uint64_t ascii[128][2]; /* a bit for each second character */
    uint64_t *others;       /* [n_slots] hash table, open addressing: first << 21 | second; 0: empty */
    size_t n, n_slots;      /* a power of two; 0: nothing was added */
} pf_bpe_pairs;

/* With `characters` a piece starts as its characters; a character without a token becomes byte tokens if byte_id has all of
 * its bytes. Without `characters` it starts as its bytes. */
typedef struct {
    int32_t byte_id[256];         /* the token of each byte; -1: none */
    pf_bpe_character *characters; /* hash table, open addressing; NULL: bytes */
    size_t n_character_slots;     /* a power of two, at least twice the characters */
    int32_t unk_id;               /* unk_token; -1: none */
    bool fuse_unk;                /* one unk_token for a run of unknown characters */
    pf_merge *merges;             /* hash table, open addressing */
    size_t n_slots;               /* a power of two, at least twice the merges; 0: no merges */
    uint64_t *filter; /* [n_slots / 16] four bits a slot, one set for the hash of each merge: most pairs do not merge */
    pf_bpe_pairs pairs; /* with `characters` */
    uint64_t seed;      /* of all hashes */
} pf_bpe;

/* Allocates the tables for n_merges and n_characters. PF_NOMEM. Free them with pf_bpe_clear. */
PF_MUST_USE pf_status pf_bpe_reserve(pf_bpe *bpe, size_t n_merges);
PF_MUST_USE pf_status pf_bpe_reserve_characters(pf_bpe *bpe, size_t n_characters);
void pf_bpe_clear(pf_bpe *bpe);

/* Sets the merge of (left, right); a later call for a pair replaces an earlier one. At most as many as were reserved. */
void pf_bpe_set_merge(pf_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged);

/* Sets the token of a character. At most as many as were reserved, each once. */
void pf_bpe_set_character(pf_bpe *bpe, int32_t code_point, int32_t id);

/* Adds the pairs of characters of a token's text [n_bytes], valid UTF-8. With `characters` every token's must be added, or none.
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_bpe_add_pairs(pf_bpe *bpe, const char *text, size_t n_bytes);

/* Where piece [n_bytes] may be cut first behind `begin`, so that both parts encode on their own to the tokens of the whole;
 * n_bytes: nowhere. Valid UTF-8; there are `characters`. */
size_t pf_bpe_find_cut(const pf_bpe *bpe, const char *piece, size_t n_bytes, size_t begin);

typedef struct pf_bpe_symbol pf_bpe_symbol;
typedef struct pf_bpe_candidate pf_bpe_candidate;

/* Working memory that grows with the longest piece; zero it before first use. */
typedef struct {
    pf_bpe_symbol *symbols; /* [capacity] */
    pf_bpe_candidate *heap; /* [2 * capacity] */
    size_t capacity;
} pf_bpe_scratch;

void pf_bpe_scratch_clear(pf_bpe_scratch *scratch);

/* Appends the tokens of piece [n_bytes], which is valid UTF-8 if there are `characters`; O(n log n). cancel, or NULL: once it
 * is true merging ends with PF_CANCELLED.
 * PF_NOMEM; PF_LIMIT (2^31 bytes); PF_UNSUPPORTED: a part of it has no token, and there is no unk_token. */
PF_MUST_USE pf_status pf_bpe_encode(const pf_bpe *bpe, pf_bpe_scratch *scratch, const char *piece, size_t n_bytes,
                                    const volatile bool *cancel, pf_tokens *out);

/* The same for a byte that is not part of valid UTF-8. */
PF_MUST_USE pf_status pf_bpe_encode_byte(const pf_bpe *bpe, unsigned char byte, pf_tokens *out);

#endif
