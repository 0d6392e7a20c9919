/*
 * What a tokenizer is made of, shared by the reader of its files (tokenizer_json.c) and the code that uses it
 * (tokenizer.c). Internal to tokenizer/.
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
#include "tokenizer/tokenizer.h"
#include "tokenizer/files/tokenizer_config.h"

enum {
    PF_MAX_TOKENIZER_BYTES = 1 << 27,        /* of tokenizer.json: four times the largest that was found */
    PF_MAX_TOKENIZER_CONFIG_BYTES = 1 << 26, /* of each file beside it */
    PF_MAX_TOKEN_ID = (1 << 24) - 1,
    PF_MAX_TEMPLATE_IDS = 64,
};

/* What the post-processor puts on one side. */
typedef struct {
    int32_t ids[PF_MAX_TEMPLATE_IDS];
    int32_t n;
} pf_id_list;

struct pf_tokenizer {
    pf_token *tokens; /* [vocab_size] */
    int32_t vocab_size;
    int32_t base_size;     /* the same without added tokens */
    pf_token_index pieces; /* the model's tokens, by their bytes; for ignore_merges */
    pf_token_index added;  /* added tokens whose bytes are their text */
    bool ignore_merges;
    pf_bpe bpe;
    pf_normalizer *normalizer;
    pf_pretokenizer *pretokenizer;
    pf_decoder *decoder;
    pf_added_matcher *raw;        /* added tokens looked for in the text as it is */
    pf_added_matcher *normalized; /* and in the normalised text */
    pf_id_list prefix, suffix;
};

/* What the post-processor of a document puts around a text, into t, whose tokens have been read. PF_FORMAT,
 * PF_UNSUPPORTED: the sentence names the part. */
PF_MUST_USE pf_status pf_post_processor_read(const pf_json *doc, pf_tokenizer *t, pf_error *error);

/* Fill *t, zeroed, from the files in a directory. On failure the caller still closes it. */
PF_MUST_USE pf_status pf_tokenizer_read(const char *directory, pf_tokenizer *t, pf_error *error);

/* The same from documents in memory. */
PF_MUST_USE pf_status pf_tokenizer_read_documents(const pf_tokenizer_files *files, pf_tokenizer *t, pf_error *error);

/* The id of an added token, special or not, by its text; -1: there is none. */
int32_t pf_tokenizer_find_added(const pf_tokenizer *tokenizer, const char *text);

/* As pf_tokenizer_open, from the text of tokenizer.json and of tokenizer_config.json, which may be NULL. */
PF_MUST_USE pf_status pf_tokenizer_parse(const char *text, size_t n_bytes, const char *config_text,
                                         size_t n_config_bytes, pf_tokenizer **out, pf_error *error);

#endif
