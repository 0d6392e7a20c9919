/*
 * Encodes a piece by a unigram model: of all ways to cut it into tokens, the one with the largest sum of scores. A character
 * that begins no way with a token of its own length is unknown; it scores ten less than the worst token, and a run of unknown
 * characters is one token, or its bytes.
 *
 * Of ways with equal sums the one whose last token begins first is taken. Sums are doubles, added from left to right.
 *
 * Source: Kudo, Subword Regularization, ACL 2018 (arXiv:1804.10959), section 3.2; ties, sums and unknown characters as in the
 * library tokenizers (models/unigram).
 *
 * Internal to tokenizer/. Immutable; the scratch is used by one thread.
 */
#ifndef PF_TOKENIZER_UNIGRAM_H
#define PF_TOKENIZER_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/encode/tokens.h"

typedef struct pf_unigram pf_unigram;

typedef struct {
    const char *text; /* [n_bytes] valid UTF-8; borrowed during the call that takes it */
    size_t n_bytes;
    double score;
    int32_t id;
} pf_unigram_token;

/* tokens [n], sorted by this call; of equal texts the last one counts. unk_id: the unknown token, -1: none. byte_id [256]: the
 * tokens of bytes, -1 for each that has none, or NULL. PF_LIMIT: they have more than 2^31 bytes. PF_NOMEM. */
PF_MUST_USE pf_status pf_unigram_create(pf_unigram_token *tokens, size_t n, int32_t unk_id, const int32_t *byte_id,
                                        pf_unigram **out);
void pf_unigram_destroy(pf_unigram *u); /* NULL is fine */

typedef struct pf_unigram_node pf_unigram_node;

/* Working memory that grows with the longest piece; zero it before first use. */
typedef struct {
    pf_unigram_node *nodes; /* [capacity] */
    size_t capacity;
    uint64_t n_steps; /* of the trie, over all pieces */
} pf_unigram_scratch;

void pf_unigram_scratch_clear(pf_unigram_scratch *scratch);

/* Appends the tokens of piece [n_bytes], valid UTF-8; O(n * longest token). cancel, or NULL: once it is true the call ends with
 * PF_CANCELLED.
 * PF_NOMEM; PF_LIMIT: 2^31 bytes, or tokens so long that it takes too long; PF_UNSUPPORTED: a character has no token, and there
 * is no unknown token. */
PF_MUST_USE pf_status pf_unigram_encode(const pf_unigram *u, pf_unigram_scratch *scratch, const char *piece,
                                        size_t n_bytes, const volatile bool *cancel, pf_tokens *out);

#endif
