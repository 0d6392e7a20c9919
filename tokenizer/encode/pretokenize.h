/*
 * A text into the pieces that are tokenised each for itself: the pre_tokenizer of tokenizer.json.
 *
 * A list of steps, each applied to every piece of the one before: a split cuts it, Metaspace writes another character for
 * its spaces, may put one before it, and may cut there. Among them may be ByteLevel, which may put a space before a piece
 * and split it by GPT-2's pattern; the splits behind it see each byte as the character that stands for it (byte_to_unicode.h).
 * A pattern sees only the piece: a lookaround does not reach past it.
 *
 * Internal to tokenizer/. A pretokenizer is immutable; the scratch belongs to one thread.
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

/* From the node "pre_tokenizer" of doc; null: a text is one piece. PF_UNSUPPORTED, PF_FORMAT: the sentence names the
 * part. PF_NOMEM. Ended with pf_pretokenizer_destroy. */
PF_MUST_USE pf_status pf_pretokenizer_create(const pf_json *doc, const json_t *node, pf_pretokenizer **out,
                                             pf_error *error);
void pf_pretokenizer_destroy(pf_pretokenizer *p); /* NULL is fine */

/* Whether there is a ByteLevel, so that a piece is bytes and no text. */
bool pf_pretokenizer_is_byte_level(const pf_pretokenizer *p);

/* Whether ByteLevel puts a space before a piece, whatever the node says. Before the first use. */
void pf_pretokenizer_set_prefix_space(pf_pretokenizer *p, bool add_prefix_space);

typedef struct pf_pretokenize_scratch pf_pretokenize_scratch;

/* Working memory; the searcher is borrowed. PF_NOMEM. */
PF_MUST_USE pf_status pf_pretokenize_scratch_create(pf_searcher *searcher, pf_pretokenize_scratch **out);
void pf_pretokenize_scratch_destroy(pf_pretokenize_scratch *scratch); /* NULL is fine */

/* Called for each piece in order; what it returns other than PF_OK ends the walk. */
typedef pf_status pf_piece_fn(void *user, const char *piece, size_t n_bytes);

/* Where a text stands in what is encoded. */
typedef struct {
    size_t n_first;        /* so many bytes at its front are of the first character of all */
    bool is_start;         /* it is the start of all */
    bool follows_raw_byte; /* a byte that is no text is before it: nothing is put between */
} pf_text_place;

/* text [n_bytes] is valid UTF-8. PF_LIMIT: it takes too long or becomes too long. PF_NOMEM. */
PF_MUST_USE pf_status pf_pretokenize(const pf_pretokenizer *p, pf_pretokenize_scratch *scratch, const char *text,
                                     size_t n_bytes, pf_text_place place, pf_piece_fn *emit, void *user);

#endif
