/*
 * Byte-pair encoding of one piece: its bytes or its characters become tokens, and the pair of neighbours whose merge has
 * the lowest rank (the leftmost of equals) is replaced until no pair has one.
 *
 * Internal to tokenizer/. Immutable once built; the scratch belongs to one thread.
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

/* With `characters`, these are a piece's first tokens, and a character that is none becomes its bytes where byte_id has
 * all of them; else its bytes are. */
typedef struct {
    int32_t byte_id[256];         /* the token of each byte; -1: none */
    pf_bpe_character *characters; /* hash table, open addressing; NULL: bytes */
    size_t n_character_slots;     /* a power of two, at least twice the characters */
    int32_t unk_id;               /* the token for what has none; -1: there is no such token */
    bool fuse_unk;                /* one for a run of them */
    pf_merge *merges;             /* hash table, open addressing */
    size_t n_slots;               /* a power of two, at least twice the merges; 0: no merges */
    uint64_t seed;                /* of the hashes of both */
} pf_bpe;

/* Room for n_merges, and for n_characters. PF_NOMEM. Freed with pf_bpe_clear. */
PF_MUST_USE pf_status pf_bpe_reserve(pf_bpe *bpe, size_t n_merges);
PF_MUST_USE pf_status pf_bpe_reserve_characters(pf_bpe *bpe, size_t n_characters);
void pf_bpe_clear(pf_bpe *bpe);

/* Set the merge of (left, right); the last one said of a pair holds. At most as many as were reserved. */
void pf_bpe_set_merge(pf_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged);

/* At most as many as were reserved, each once. */
void pf_bpe_set_character(pf_bpe *bpe, int32_t code_point, int32_t id);

typedef struct pf_bpe_symbol pf_bpe_symbol;
typedef struct pf_bpe_candidate pf_bpe_candidate;

/* Working memory that grows with the longest piece; zero it before first use. */
typedef struct {
    pf_bpe_symbol *symbols; /* [capacity] */
    pf_bpe_candidate *heap; /* [2 * capacity] */
    size_t capacity;
} pf_bpe_scratch;

void pf_bpe_scratch_clear(pf_bpe_scratch *scratch);

/* Append the tokens of piece [n_bytes], with characters valid UTF-8; O(n log n). cancel, or NULL: set from outside, it ends
 * the merging with PF_CANCELLED.
 * PF_NOMEM; PF_LIMIT (2^31 bytes); PF_UNSUPPORTED: something in it has no token, nor is there one for what has none. */
PF_MUST_USE pf_status pf_bpe_encode(const pf_bpe *bpe, pf_bpe_scratch *scratch, const char *piece, size_t n_bytes,
                                    const volatile bool *cancel, pf_tokens *out);

/* The same of a byte that is no part of a text. */
PF_MUST_USE pf_status pf_bpe_encode_byte(const pf_bpe *bpe, unsigned char byte, pf_tokens *out);

#endif
