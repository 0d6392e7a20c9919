/*
 * Turns the tokens of a continuation into text as they arrive, ends it at a stop text, and keeps characters whole.
 *
 *      tokens    "The"  " caf"  "\xC3"  "\xA9"  "\n"  "\nQ"          stop text "\n\nQ:"
 *      bytes      The caf\xC3\xA9\n\nQ
 *                 |--- may be shown ---|---| held back: may become the stop text
 *
 * A stop text is found across tokens. The text ends before it; the tokens are kept. Special tokens have no text, but for those that the
 * caller names.
 */
#ifndef PF_TOKENIZER_TEXT_STREAM_H
#define PF_TOKENIZER_TEXT_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "tokenizer/decode/detokenize.h"

typedef struct {
    const pf_tokenizer *tokenizer;
    const char *const *stops; /* [n_stops] */
    int32_t n_stops;
    const int32_t *shown; /* [n_shown] special tokens that are text; by the caller, after the begin */
    int32_t n_shown;
    pf_detokenizer *detokenizer;
    pf_bytes bytes; /* the text so far; once stopped, the text before the stop text */
    bool *drafted;  /* [bytes.n] whether a drafted token added the byte */
    size_t drafted_capacity;
    bool stopped; /* a stop text was found: stops[stop] */
    int32_t stop;
} pf_text_stream;

/* Begins the text that tokens add to that of the prompt (pf_detokenizer_skip_prompt); stop texts do not match inside the
 * prompt, and none is empty. Reserves memory for n_tokens tokens of usual length; it grows for longer texts. Tokenizer and stops are borrowed.
 * PF_LIMIT: the decoder makes a token of the prompt too long. PF_NOMEM. Free it with pf_text_stream_end. */
PF_MUST_USE pf_status pf_text_stream_begin(pf_text_stream *stream, const pf_tokenizer *tokenizer,
                                           const char *const *stops, int32_t n_stops, const pf_tokens *prompt,
                                           int32_t n_tokens);
void pf_text_stream_end(pf_text_stream *stream); /* a zeroed stream is fine */

/* Adds the text of the next token. PF_INVALID: it is not in the vocabulary and adds nothing. PF_LIMIT: the decoder makes it
 * too long. PF_NOMEM. */
PF_MUST_USE pf_status pf_text_stream_push(pf_text_stream *stream, int32_t token, bool drafted);

/* Ends the text: adds what the decoder held back. PF_LIMIT, PF_NOMEM. */
PF_MUST_USE pf_status pf_text_stream_finish(pf_text_stream *stream);

/* How many of `bytes` may be shown now: no part of a character, and no beginning of a stop text. After the last token all of
 * them may. */
size_t pf_text_stream_ready(const pf_text_stream *stream);

#endif
