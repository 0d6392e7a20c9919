/*
 * Compares the vocabularies of a draft and a target, id by id: which ids have one text in both.
 *
 * Two vocabularies need not be equal. The drafter drafts over the ids that have the same text in both; the others are the
 * target's alone. In one process texts are compared. Across the wire hashes are: each covers a block of consecutive ids, so
 * that a block with one id that differs counts as different.
 *
 *      hash of a block   the sum, modulo 2^32, of the hashes of its tokens; an id without a token adds nothing
 *      hash of a token   FNV-1a of 64 bits over the id (u32, little endian), the length (u32) and the bytes; its two halves
 *                        combined by exclusive or
 *      ids of a block    the smallest power of two for which PF_VOCAB_HASHES blocks cover the vocabulary
 *
 * Sums allow hashes of small blocks to be added up to those of larger ones, so vocabularies of any two sizes compare.
 * Pure: no I/O, no allocation.
 */
#ifndef PF_PROTO_VOCABULARY_H
#define PF_PROTO_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/messages.h"

/* Ids [first, end) are excluded where both are pairs of one array: [2 * n_excluded], ascending, ranges apart. */
typedef struct {
    int32_t n_ids;                         /* that either vocabulary has */
    int32_t n_different;                   /* of them: whole blocks where hashes were compared */
    int32_t first_different;               /* -1: none; the first id of a block */
    int32_t block_ids;                     /* 1: texts were compared, or hashes of one id each */
    int32_t n_excluded;                    /* ranges */
    int32_t excluded[2 * PF_MAX_EXCLUDED]; /* of the draft's ids, those that it must not propose */
} pf_vocab_match;

/* How many ids one hash covers, and how many hashes cover a vocabulary of n_ids (at least 1). */
int32_t pf_vocab_block_ids(int32_t n_ids);
int32_t pf_vocab_n_hashes(int32_t n_ids);

/* Fills in the hashes of a model info with texts. */
void pf_vocab_hash(pf_model_info *info);

/* Compares texts where both infos have them, else hashes. Where there are more than PF_MAX_EXCLUDED ranges, they are
 * widened until they fit: a shared id that is excluded costs speed alone.
 * PF_UNAVAILABLE: one of the two has neither. */
PF_MUST_USE pf_status pf_vocab_compare(const pf_model_info *draft, const pf_model_info *target, pf_vocab_match *out);

#endif
