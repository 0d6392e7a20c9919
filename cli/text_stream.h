/*
 * Tokens in, text out, as they come: bytes joined, stop texts found, characters kept whole.
 *
 *      tokens    "The"  " caf"  "\xC3"  "\xA9"  "\n"  "\nQ"          stop text "\n\nQ:"
 *      bytes      The caf\xC3\xA9\n\nQ
 *                 |--- may be shown ---|---| might be the beginning of the stop text: held back
 *
 * A stop text is found wherever it begins, across tokens. What stands before it is the text; the tokens are kept.
 * Special tokens have no bytes here.
 */
#ifndef PF_CLI_TEXT_STREAM_H
#define PF_CLI_TEXT_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "cli/options.h"
#include "tokenizer/decode/detokenize.h"

typedef struct {
    const pf_tokenizer *tokenizer;
    const pf_strings *stops;
    pf_detokenizer *detokenizer;
    pf_bytes bytes; /* the text so far; after a stop was met, what stands before it */
    bool *drafted;  /* [bytes.n] whose byte it is */
    size_t drafted_capacity;
    bool stopped; /* a stop text was met */
} pf_text_stream;

/* The text is what the tokens add to that of the prompt (pf_detokenizer_skip_prompt), and a stop text is not looked for in
 * the prompt. Room for n_tokens tokens of usual length; longer texts make it grow. Tokenizer and stops are borrowed.
 * PF_LIMIT: the decoder makes a token of the prompt too long. PF_NOMEM. End it with pf_text_stream_end. */
PF_MUST_USE pf_status pf_text_stream_begin(pf_text_stream *stream, const pf_tokenizer *tokenizer,
                                           const pf_strings *stops, const pf_tokens *prompt, int32_t n_tokens);
void pf_text_stream_end(pf_text_stream *stream); /* zeroed is fine */

/* Take the next token. PF_INVALID: it is not in the vocabulary (its bytes are left out). PF_LIMIT: the decoder
 * makes it too long. PF_NOMEM. */
PF_MUST_USE pf_status pf_text_stream_push(pf_text_stream *stream, int32_t token, bool drafted);

/* No token follows: take what the decoder held back. PF_LIMIT, PF_NOMEM. */
PF_MUST_USE pf_status pf_text_stream_finish(pf_text_stream *stream);

/* How much of `bytes` may be shown: neither a part of a character nor what may turn out to be a stop text. When no
 * more tokens will come, all bytes are. */
size_t pf_text_stream_ready(const pf_text_stream *stream);

#endif
