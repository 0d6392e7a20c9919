/*
 * Reads the added tokens of tokenizer_config.json and, for files older than transformers 5, of special_tokens_map.json and
 * added_tokens.json.
 *
 *      added_tokens_decoder, added_tokens.json          tokens by id; the id only orders them
 *      bos_token, eos_token, ...: any name_token        special tokens by name
 *      extra_special_tokens, additional_special_tokens  special tokens with or without a name
 *      split_special_tokens                             special tokens in a text are encoded as text
 *      tokenizer_class, add_prefix_space                their effect for some classes, see below
 *
 * With added_tokens_decoder the two older files are ignored; without it their entry for a name precedes that of
 * tokenizer_config.json. No other field of these files changes an id: tokenizer.json decides how text is split and which
 * tokens surround it. Truncation and padding are left to the caller.
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

/* The documents of a tokenizer; NULL: there is no such file. */
typedef struct {
    const pf_json *tokenizer; /* always there */
    const pf_json *config;
    const pf_json *special_map; /* special_tokens_map.json */
    const pf_json *added;       /* added_tokens.json */
    bool ranked;                /* `tokenizer` lists no merges: they follow from its ids (rank_merges.c) */
} pf_tokenizer_files;

/* Whether special_tokens_map.json and added_tokens.json are read beside this tokenizer_config.json (NULL: none). */
bool pf_tokenizer_config_is_old(const pf_json *config);

typedef struct {
    const pf_json *doc; /* its document, for errors */
    const char *text;   /* borrowed from the documents */
    size_t n_bytes;
    pf_added_flags flags;
} pf_config_token;

/* The effect of tokenizer_class on ByteLevel's add_prefix_space in transformers 5. */
typedef enum {
    PF_PREFIX_SPACE_AS_FILED, /* the value of tokenizer.json */
    PF_PREFIX_SPACE_OFF,      /* GPT-2's class and others: the value of tokenizer_config.json, false by default */
    PF_PREFIX_SPACE_ON,
} pf_prefix_space;

typedef struct {
    pf_config_token *tokens; /* [n], to be added in this order after those of tokenizer.json: */
    size_t n_listed;         /* the first ones always, */
    size_t n;                /* the others only if no token has their text */
    bool split_special_tokens;
    pf_prefix_space prefix_space;
    bool prefix_space_in_sequence; /* also for a ByteLevel inside a Sequence */
} pf_tokenizer_config;

/* PF_FORMAT, PF_UNSUPPORTED: the sentence names file and field. PF_NOMEM. Free it with pf_tokenizer_config_clear. */
PF_MUST_USE pf_status pf_tokenizer_config_read(const pf_tokenizer_files *files, pf_tokenizer_config *out,
                                               pf_error *error);
void pf_tokenizer_config_clear(pf_tokenizer_config *config); /* zeroed is fine */

/* The object of an added token as a document whose errors name the token by its "content". Borrowed. */
pf_json pf_added_token_within(const pf_json *doc, const json_t *node);

/* Reads the flags of such an object. `special`: the flag special is set in any case. */
PF_MUST_USE pf_status pf_added_flags_read(const pf_json *doc, const json_t *node, bool special, pf_added_flags *out,
                                          pf_error *error);

#endif
