/*
 * Ids to text, a token at a time, and exact: where Hugging Face's library writes U+FFFD for bytes that are no UTF-8, those
 * bytes come. The pieces joined are what decoding all tokens at once gives. What the decoder of the tokenizer
 * (tokenizer/decode/decoder.h) cannot know yet waits: a few bytes, or what a Replace or a Strip of the end may still take away, which
 * a file can make 4 KiB and 256 KiB a step.
 *
 * Threads: a detokenizer is one thread's.
 */
#ifndef PF_TOKENIZER_DETOKENIZE_H
#define PF_TOKENIZER_DETOKENIZE_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "tokenizer/tokenizer.h"

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
