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

/* Read the prompt that the tokens to be pushed continue; call it before the first of them. What the decoder does to the
 * start of a text (a space that Strip or Metaspace drops, the space that goes between two tokens) then belongs to the
 * prompt, and the pieces are what the tokens add to its text: the text of both together, without the longest beginning
 * that it shares with the prompt's own. Of a character that is split between the two, each has its own bytes.
 * Special tokens and ids that are not in the vocabulary are left out; without any other token the prompt changes
 * nothing. Takes time only for the tokens that the decoder's state depends on: the first few and the last byte tokens,
 * or all of them behind a decoder that looks for a text across tokens.
 * PF_LIMIT as pf_detokenizer_push, PF_NOMEM: the detokenizer can only be destroyed. */
PF_MUST_USE pf_status pf_detokenizer_skip_prompt(pf_detokenizer *d, const int32_t *prompt, int32_t n_prompt);

/* Append to `text` what the next token adds to it, a special token as its text.
 * PF_INVALID: the id is not in the vocabulary; nothing has changed. PF_LIMIT: the steps make a token longer by a MiB (a
 * hostile file's). PF_NOMEM. Allocates where `text` has no room, and nothing else. */
PF_MUST_USE pf_status pf_detokenizer_push(pf_detokenizer *d, int32_t id, pf_bytes *text);

/* Append what waited; no token follows. PF_LIMIT, PF_NOMEM. */
PF_MUST_USE pf_status pf_detokenizer_finish(pf_detokenizer *d, pf_bytes *text);

#endif
