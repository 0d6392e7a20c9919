/*
 * Decodes ids to text, one token at a time. The pieces together are the text that decoding all tokens at once gives. Bytes
 * are exact: where Hugging Face's library writes U+FFFD for invalid UTF-8, the bytes themselves are written. Text that the
 * decoder (tokenizer/decode/decoder.h) may still change is held back: a few bytes, at most 4 KiB for a Replace and 256 KiB
 * for a Strip.
 *
 * Threads: a detokenizer is used by one thread at a time.
 */
#ifndef PF_TOKENIZER_DETOKENIZE_H
#define PF_TOKENIZER_DETOKENIZE_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "tokenizer/tokenizer.h"

/* The decoding of one text. */
typedef struct pf_detokenizer pf_detokenizer;

/* The tokenizer is borrowed. PF_NOMEM. Free it with pf_detokenizer_destroy. */
PF_MUST_USE pf_status pf_detokenizer_create(const pf_tokenizer *tokenizer, pf_detokenizer **out);
void pf_detokenizer_destroy(pf_detokenizer *d); /* NULL is fine */

/* Makes the tokens that are pushed later a continuation of `prompt`. Call it before the first push. The decoder then
 * applies its rules for the start of a text (a space that Strip or Metaspace drops, the space between joined tokens) to the
 * prompt, and the pieces are the text that the pushed tokens add: the text of prompt and tokens together without its
 * longest common prefix with the text of the prompt. A character that is split at the border keeps its bytes on both sides.
 * Special tokens and unknown ids of the prompt are ignored; a prompt without other tokens changes nothing. Only the tokens
 * that determine the decoder's state are decoded: the first few and the trailing byte tokens, or all tokens if the decoder
 * searches for text across tokens.
 * PF_LIMIT as pf_detokenizer_push, PF_NOMEM: after either only pf_detokenizer_destroy may be called. */
PF_MUST_USE pf_status pf_detokenizer_skip_prompt(pf_detokenizer *d, const int32_t *prompt, int32_t n_prompt);

/* Appends to `text` what the next token adds; a special token adds its text.
 * PF_INVALID: the id is not in the vocabulary; nothing has changed. PF_LIMIT: the decoder makes a token longer by more than
 * a MiB (a hostile file). PF_NOMEM. Allocates only to grow `text`. */
PF_MUST_USE pf_status pf_detokenizer_push(pf_detokenizer *d, int32_t id, pf_bytes *text);

/* Ends the text: appends what was held back. PF_LIMIT, PF_NOMEM. */
PF_MUST_USE pf_status pf_detokenizer_finish(pf_detokenizer *d, pf_bytes *text);

#endif
