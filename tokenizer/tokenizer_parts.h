/*
 * Declares the parts of a tokenizer for the code that reads its files (files/) and the code that uses it (tokenizer.c,
 * decode/). Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_TOKENIZER_PARTS_H
#define PF_TOKENIZER_TOKENIZER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokenizer/encode/added_tokens.h"
#include "tokenizer/encode/bpe.h"
#include "tokenizer/decode/decoder.h"
#include "tokenizer/encode/normalize.h"
#include "tokenizer/encode/pretokenize.h"
#include "tokenizer/encode/token_index.h"
#include "tokenizer/encode/unigram.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/files/tokenizer_config.h"

enum {
    PF_MAX_TOKENIZER_BYTES = 1 << 27,        /* of tokenizer.json; published files have up to 32 MiB */
    PF_MAX_TOKENIZER_CONFIG_BYTES = 1 << 26, /* of each other file */
    PF_MAX_TOKEN_ID = (1 << 24) - 1,
    PF_MAX_TEMPLATE_IDS = 64,
};

/* The tokens that the post-processor adds on one side. */
typedef struct {
    int32_t ids[PF_MAX_TEMPLATE_IDS];
    int32_t n;
} pf_id_list;

struct pf_tokenizer {
    pf_token *tokens; /* [vocab_size] */
    int32_t vocab_size;
    int32_t base_size;     /* vocab_size without added tokens */
    pf_token_index pieces; /* the model's tokens by their bytes, if ignore_merges */
    pf_token_index added;  /* added tokens that have their text as bytes */
    bool ignore_merges;
    pf_unigram *unigram; /* NULL: the model is BPE */
    pf_bpe bpe;          /* of a Unigram model only the byte tokens and unk_id */
    pf_normalizer *normalizer;
    pf_pretokenizer *pretokenizer;
    pf_decoder *decoder;
    pf_added_matcher *raw;        /* added tokens matched in the raw text */
    pf_added_matcher *normalized; /* added tokens matched in the normalized text */
    pf_id_list prefix, suffix;
};

/* Reads the post-processor of a document into t; the tokens of t have been read before. PF_FORMAT, PF_UNSUPPORTED: the
 * sentence names the part. */
PF_MUST_USE pf_status pf_post_processor_read(const pf_json *doc, pf_tokenizer *t, pf_error *error);

/* Sets the merges of a vocabulary whose ids are ranks, as tiktoken merges: neighbors whose text is a token, lowest id first. The
 * tokens and the index of pieces are there. PF_LIMIT: the tokens are too long. PF_NOMEM. */
PF_MUST_USE pf_status pf_rank_merges_set(pf_tokenizer *t, pf_error *error);

/* Fills *t, zeroed before, from the files of a directory, or from a GGUF file. The caller closes it, also on failure. */
PF_MUST_USE pf_status pf_tokenizer_read(const char *directory, pf_tokenizer *t, pf_error *error);

/* The same from documents in memory. */
PF_MUST_USE pf_status pf_tokenizer_read_documents(const pf_tokenizer_files *files, pf_tokenizer *t, pf_error *error);

/* The id of the added token with this text, special or not; -1: there is none. */
int32_t pf_tokenizer_find_added(const pf_tokenizer *tokenizer, const char *text);

/* As pf_tokenizer_open, from the text of tokenizer.json and of tokenizer_config.json, which may be NULL. */
PF_MUST_USE pf_status pf_tokenizer_parse(const char *text, size_t n_bytes, const char *config_text,
                                         size_t n_config_bytes, pf_tokenizer **out, pf_error *error);

#endif
