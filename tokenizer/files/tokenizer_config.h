/*
 * What the files beside tokenizer.json say of its tokens: tokenizer_config.json and, from before transformers 5,
 * special_tokens_map.json and added_tokens.json.
 *
 *      added_tokens_decoder, added_tokens.json          tokens by their id, which only orders them
 *      bos_token, eos_token, ...: any name_token        special tokens by name
 *      extra_special_tokens, additional_special_tokens  special tokens by name or without one
 *      split_special_tokens                             whether a text may hold special tokens
 *      tokenizer_class, add_prefix_space                what they mean to some classes, see below
 *
 * Where added_tokens_decoder is there, the two older files say nothing; else their word on a name goes before
 * tokenizer_config.json's. Nothing else in these files changes an id: how a text is cut and what is put around it stands
 * in tokenizer.json, which holds truncation and padding besides, and these are the caller's business.
 *
 * Source: transformers 5.23, PreTrainedTokenizerBase._from_pretrained and TokenizersBackend.__init__.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_TOKENIZER_CONFIG_H
#define PF_TOKENIZER_TOKENIZER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/encode/added_tokens.h"

/* The documents of a tokenizer; NULL where there is no such file. */
typedef struct {
    const pf_json *tokenizer; /* always there */
    const pf_json *config;
    const pf_json *special_map; /* special_tokens_map.json */
    const pf_json *added;       /* added_tokens.json */
} pf_tokenizer_files;

/* Whether special_tokens_map.json and added_tokens.json have a say beside this tokenizer_config.json (NULL: none). */
bool pf_tokenizer_config_is_old(const pf_json *config);

typedef struct {
    const pf_json *doc; /* that has it, for errors */
    const char *text;   /* borrowed from the documents */
    size_t n_bytes;
    pf_added_flags flags;
} pf_config_token;

/* What a class of transformers does with ByteLevel's add_prefix_space, as version 5. */
typedef enum {
    PF_PREFIX_SPACE_AS_FILED, /* tokenizer.json's holds */
    PF_PREFIX_SPACE_OFF, /* GPT-2's and others: tokenizer_config.json's goes before it, and is false where it is absent */
    PF_PREFIX_SPACE_ON,
} pf_prefix_space;

typedef struct {
    pf_config_token *tokens; /* [n], to be added in this order behind those of tokenizer.json: */
    size_t n_listed;         /* the first, whatever is there already; */
    size_t n;                /* the others, where none before them has their text */
    bool split_special_tokens;
    pf_prefix_space prefix_space;
    bool prefix_space_in_sequence; /* else it is for a pre_tokenizer that is ByteLevel and nothing else */
} pf_tokenizer_config;

/* PF_FORMAT, PF_UNSUPPORTED: the sentence names file and field. PF_NOMEM. Ended with pf_tokenizer_config_clear. */
PF_MUST_USE pf_status pf_tokenizer_config_read(const pf_tokenizer_files *files, pf_tokenizer_config *out,
                                               pf_error *error);
void pf_tokenizer_config_clear(pf_tokenizer_config *config); /* zeroed is fine */

/* An object that describes a token, and has its text as "content", as a document whose errors name the token. Borrowed. */
pf_json pf_added_token_within(const pf_json *doc, const json_t *node);

/* The flags in such an object, into *out. `special`: it is one whatever the object says. */
PF_MUST_USE pf_status pf_added_flags_read(const pf_json *doc, const json_t *node, bool special, pf_added_flags *out,
                                          pf_error *error);

#endif
