/*
 * Normalizes text by the normalizer of tokenizer.json: a list of steps, each of which maps a text to another one.
 *
 * Internal to tokenizer/. A normalizer is immutable.
 */
#ifndef PF_TOKENIZER_NORMALIZE_H
#define PF_TOKENIZER_NORMALIZE_H

#include <jansson.h>

#include "base/bytes.h"
#include "base/json.h"
#include "tokenizer/pattern/pattern.h"
#include "tokenizer/encode/pretokenize.h"

enum { PF_MAX_NORMALIZERS = 32 };

typedef struct pf_normalizer pf_normalizer;

/* Reads the node "normalizer" of doc; null: text is unchanged. PF_UNSUPPORTED, PF_FORMAT: the sentence names the part.
 * PF_NOMEM. Free it with pf_normalizer_destroy. */
PF_MUST_USE pf_status pf_normalizer_create(const pf_json *doc, const json_t *node, pf_normalizer **out,
                                           pf_error *error);
void pf_normalizer_destroy(pf_normalizer *normalizer); /* NULL is fine */

/* *out: text [n_bytes], valid UTF-8, after all steps, allocated; out->data is NULL if there are no steps and the text is
 * unchanged. *place becomes that of the new text. On failure *out is unchanged.
 * PF_LIMIT: it takes too long, or the text becomes too long. PF_CANCELLED: by the searcher's flag. PF_NOMEM. */
PF_MUST_USE pf_status pf_normalize(const pf_normalizer *normalizer, pf_searcher *searcher, const char *text,
                                   size_t n_bytes, pf_text_place *place, pf_bytes *out);

#endif
