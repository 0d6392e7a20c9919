/*
 * Splits text into pieces by the pre_tokenizer of tokenizer.json; each piece is encoded on its own.
 *
 * The pre-tokenizer is a list of steps, each applied to every piece of the previous step. A split cuts a piece. Metaspace
 * replaces its spaces by a mark, may prepend a mark, and may cut at marks. ByteLevel may prepend a space and split by
 * GPT-2's pattern; the splits after it see each byte as a character (byte_to_unicode.h). A pattern sees only the piece:
 * lookaround does not reach beyond it.
 *
 * Internal to tokenizer/. A pretokenizer is immutable; the scratch is used by one thread.
 */
#ifndef PF_TOKENIZER_PRETOKENIZE_H
#define PF_TOKENIZER_PRETOKENIZE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/pattern/pattern.h"

typedef struct pf_pretokenizer pf_pretokenizer;

/* Reads the node "pre_tokenizer" of doc; null: a text is one piece. PF_UNSUPPORTED, PF_FORMAT: the sentence names the part.
 * PF_NOMEM. Free it with pf_pretokenizer_destroy. */
PF_MUST_USE pf_status pf_pretokenizer_create(const pf_json *doc, const json_t *node, pf_pretokenizer **out,
                                             pf_error *error);
void pf_pretokenizer_destroy(pf_pretokenizer *p); /* NULL is fine */

/* Whether there is a ByteLevel step: pieces are bytes, not characters. */
bool pf_pretokenizer_is_byte_level(const pf_pretokenizer *p);

/* Overrides add_prefix_space of ByteLevel. Call it before the first use. */
void pf_pretokenizer_set_prefix_space(pf_pretokenizer *p, bool add_prefix_space);

typedef struct pf_pretokenize_scratch pf_pretokenize_scratch;

/* Working memory; the searcher is borrowed. PF_NOMEM. */
PF_MUST_USE pf_status pf_pretokenize_scratch_create(pf_searcher *searcher, pf_pretokenize_scratch **out);
void pf_pretokenize_scratch_destroy(pf_pretokenize_scratch *scratch); /* NULL is fine */

/* Called for each piece in order; an error ends the iteration and is returned. */
typedef pf_status pf_piece_fn(void *user, const char *piece, size_t n_bytes);

/* The position of a text in the whole input. */
typedef struct {
    size_t n_first;        /* leading bytes that come from the first character of the input */
    bool is_start;         /* the text is the start of the input */
    bool follows_raw_byte; /* an invalid byte precedes it: no space is prepended */
} pf_text_place;

/* Splits text [n_bytes], valid UTF-8. PF_LIMIT: it takes too long, or the text becomes too long. PF_NOMEM. */
PF_MUST_USE pf_status pf_pretokenize(const pf_pretokenizer *p, pf_pretokenize_scratch *scratch, const char *text,
                                     size_t n_bytes, pf_text_place place, pf_piece_fn *emit, void *user);

#endif
