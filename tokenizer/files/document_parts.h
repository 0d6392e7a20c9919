/*
 * Builds parts of a tokenizer.json for the readers of other files (GGUF, SentencePiece, tiktoken, vocab.json), so that one reader
 * makes tokenizers of all of them.
 *
 * Functions that return json_t give a new reference, or NULL without memory. A part that is passed in is taken over, and may
 * be NULL, as the result then is.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_DOCUMENT_PARTS_H
#define PF_TOKENIZER_DOCUMENT_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define PF_SPACE_MARK "\u2581" /* SentencePiece's space */

/* A piece of the post-processor's template. */
typedef struct {
    const char *text;
    int64_t id;
} pf_template_token;

/* Sets root's post_processor, which adds these tokens before and after a text. False: no memory. */
bool pf_set_template(json_t *root, const pf_template_token *before, int n_before, const pf_template_token *after,
                     int n_after);

json_t *pf_added_token_part(int64_t id, const char *text, bool special);

/* {"type": "Sequence", LIST: parts} */
json_t *pf_sequence_part(const char *list, json_t *parts);

json_t *pf_replace_part(const char *pattern_kind, const char *pattern, const char *content);
json_t *pf_split_part(const char *regex);
json_t *pf_byte_level_part(bool add_prefix_space, bool use_regex);

/* The decoder of SentencePiece's models: marks are spaces, and byte tokens bytes. strips: without the first space. */
json_t *pf_sentencepiece_decoder(bool strips);

/* A byte-level BPE; without a normalizer that one is NULL. */
json_t *pf_byte_level_document(json_t *vocab, json_t *merges, bool ignore_merges, json_t *normalizer,
                               json_t *pre_tokenizer, json_t *added);

/* The merges that join the pieces of a SentencePiece vocabulary by score: [[left, right], ...], highest score first, of equal
 * scores longer parts first. name: of the file, for errors. vocab: texts to ids; scores [n], with NAN where no merge may give
 * the token.
 * Source: generate_merges of transformers (convert_slow_tokenizer.py).
 * PF_LIMIT: the tokens are so long that this takes too long. PF_NOMEM. The caller owns *out. */
PF_MUST_USE pf_status pf_score_merges(const char *name, json_t *vocab, const double *scores, json_t **out,
                                      pf_error *error);

#endif
