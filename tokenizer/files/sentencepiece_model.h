/*
 * Reads a SentencePiece model (tokenizer.model): one protobuf message, of which the pieces and what decides how text is
 * normalized are read. Unknown fields are skipped.
 *
 *      ModelProto      1 pieces: { 1 piece, 2 score, 3 type }   2 trainer_spec   3 normalizer_spec
 *      TrainerSpec     3 model_type   24 treat_whitespace_as_suffix   35 byte_fallback   40 unk_id   41 bos_id   42 eos_id
 *      NormalizerSpec  2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces   5 escape_whitespaces
 *
 * Source: sentencepiece_model.proto of google/sentencepiece; protobuf's encoding guide.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_SENTENCEPIECE_MODEL_H
#define PF_TOKENIZER_SENTENCEPIECE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PF_MAX_SENTENCEPIECE_BYTES = 1 << 26,
    PF_MAX_PIECES = 1 << 21,
};

typedef enum {
    PF_PIECE_NORMAL = 1,
    PF_PIECE_UNKNOWN = 2,
    PF_PIECE_CONTROL = 3,
    PF_PIECE_USER_DEFINED = 4,
    PF_PIECE_UNUSED = 5,
    PF_PIECE_BYTE = 6,
} pf_piece_type;

typedef struct {
    const char *text; /* [n_bytes] UTF-8 without NUL, not terminated; borrowed from the file */
    uint32_t n_bytes;
    float score; /* finite */
    pf_piece_type type;
} pf_piece;

typedef struct {
    pf_piece *pieces; /* [n_pieces] in order of id */
    int32_t n_pieces;
    bool is_unigram; /* else BPE */
    bool byte_fallback;
    int32_t unk_id, bos_id, eos_id; /* -1: none; else below n_pieces */
    const uint8_t *charsmap;        /* [n_charsmap] borrowed from the file */
    size_t n_charsmap;
    bool add_dummy_prefix, remove_extra_whitespaces;
} pf_sentencepiece_model;

/* Reads data [n]; `name` is the file in errors. PF_FORMAT: it is no such message, or holds a piece that is empty or not UTF-8.
 * PF_UNSUPPORTED: another algorithm than unigram and BPE, or an option that changes ids and is not known. PF_LIMIT: more than
 * PF_MAX_PIECES. PF_NOMEM. The data must outlive *out, which the caller clears. */
PF_MUST_USE pf_status pf_sentencepiece_model_read(const char *name, const uint8_t *data, size_t n,
                                                  pf_sentencepiece_model *out, pf_error *error);
void pf_sentencepiece_model_clear(pf_sentencepiece_model *model); /* zeroed is fine */

#endif
