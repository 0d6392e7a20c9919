/*
 * Ids to text: the decoder of tokenizer.json, as its library decodes a whole list, but a token at a time, and exact: where
 * the library writes U+FFFD for bytes that are no UTF-8, those bytes come.
 *
 * The library makes of a list of texts, the tokens, another one, step by step. Some steps look at each token alone: what
 * they make of it is known when the tokenizer is read (pf_decoder_spell). The others run on the way:
 *
 *      tokens        "▁Hi"   "▁"   "<0xC3>"  "<0xA9>"
 *      spelt         " Hi"   " "   C3        A9          Replace, then ByteFallback
 *      Fuse          " Hi" .. " " .. C3 .. A9             one text
 *      Strip         "Hi"  .. " " .. C3 .. A9             its first space
 *
 * The pieces joined are what decoding all tokens at once gives. What a step cannot know yet waits: a few bytes.
 *
 * A decoder is immutable and belongs to its tokenizer. A detokenizer is one thread's.
 */
#ifndef PF_TOKENIZER_DETOKENIZE_H
#define PF_TOKENIZER_DETOKENIZE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"
#include "tokenizer/pattern.h"
#include "tokenizer/tokenizer.h"

typedef struct pf_decoder pf_decoder;

/* From the node "decoder" of doc; null: tokens are joined by spaces. PF_UNSUPPORTED, PF_FORMAT: the sentence names the
 * part. PF_NOMEM. Ended with pf_decoder_destroy. */
PF_MUST_USE pf_status pf_decoder_create(const pf_json *doc, const json_t *node, pf_decoder **out, pf_error *error);
void pf_decoder_destroy(pf_decoder *decoder); /* NULL is fine */

/* Whether a token's characters stand for bytes: ByteLevel. */
bool pf_decoder_is_byte_level(const pf_decoder *decoder);

/* *text, a token's, becomes what the steps that look at each token alone make of it. *is_byte: it is one byte of a run that
 * tokens such as "<0xC3>" make together. `spare` is room to work in.
 * PF_NOMEM; PF_LIMIT: it takes too long or becomes too long. */
PF_MUST_USE pf_status pf_decoder_spell(const pf_decoder *decoder, pf_searcher *searcher, pf_bytes *text,
                                       pf_bytes *spare, bool *is_byte);

/* A text under way. */
typedef struct pf_detokenizer pf_detokenizer;

/* The tokenizer is borrowed. PF_NOMEM. Ended with pf_detokenizer_destroy. */
PF_MUST_USE pf_status pf_detokenizer_create(const pf_tokenizer *tokenizer, pf_detokenizer **out);
void pf_detokenizer_destroy(pf_detokenizer *d); /* NULL is fine */

/* Append to `text` what the next token adds to it, a special token as its text.
 * PF_INVALID: the id is not in the vocabulary; nothing has changed. PF_LIMIT: the steps make a token longer by a MiB (a
 * hostile file's). PF_NOMEM. Allocates where `text` has no room, and nothing else. */
PF_MUST_USE pf_status pf_detokenizer_push(pf_detokenizer *d, int32_t id, pf_bytes *text);

/* Append what waited; no token follows. PF_LIMIT, PF_NOMEM. */
PF_MUST_USE pf_status pf_detokenizer_finish(pf_detokenizer *d, pf_bytes *text);

#endif
