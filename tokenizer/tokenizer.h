/*
 * Text to token ids and back: tokenizer.json as Hugging Face writes it, exactly, on any bytes.
 *
 * BPE: added tokens are cut out first, the rest is normalised and split by the pre-tokenizer (regular expressions through
 * PCRE2, UTF and UCP), and merges are applied by rank to what a piece begins as: with ByteLevel its bytes, in the file as
 * the 256 printable stand-ins; else its characters, and of one without a token the bytes ("<0xC3>", byte_fallback). The
 * way back is tokenizer/decode/detokenize.h. Input need not be UTF-8: bytes that are no part of a valid sequence are pieces of their
 * own and come back unchanged, and nothing is put between them and the text behind.
 * What a file asks for beyond what is known here is refused by name (PF_UNSUPPORTED); docs/numerics.md lists it.
 *
 * A tokenizer is immutable: any number of threads may use it, each with its own output buffers.
 */
#ifndef PF_TOKENIZER_TOKENIZER_H
#define PF_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/encode/tokens.h"

typedef struct pf_tokenizer pf_tokenizer;

/* Read DIR/tokenizer.json, and of tokenizer_config.json, special_tokens_map.json and added_tokens.json, where they are,
 * the tokens that they add (tokenizer/files/tokenizer_config.h). How a text is cut and what is put around it tokenizer.json alone
 * says: add_bos_token says nothing beside it, as in transformers 5, and tokenizer_class cuts no other way, as in
 * transformers 4 (5 cuts by GPT-2's or Qwen2's pattern where the class has their names, whatever the model was trained
 * with).
 * PF_UNAVAILABLE: there is none.  PF_UNSUPPORTED: only another form is there (tokenizer.model, ...).  PF_INVALID: it cannot be read, or its path is too long.  PF_FORMAT, PF_UNSUPPORTED: the
 * sentence names file, field and value.  PF_LIMIT: a file or a pattern in it is too long, or the steps take too long on its
 * own tokens.  PF_NOMEM. */
PF_MUST_USE pf_status pf_tokenizer_open(const char *directory, pf_tokenizer **out, pf_error *error);
void pf_tokenizer_close(pf_tokenizer *tokenizer); /* NULL is fine */

/* Append the ids of text [n_bytes]. add_special: also what the post-processor adds (BOS and the like). cancel, or NULL:
 * set from outside, it ends the call with PF_CANCELLED, looked at for each piece.
 * Special tokens decoded out in the text are recognised, as transformers does by default.
 * Ids are those of Hugging Face's tokenizers 0.23, also of the characters of Unicode 16 that the PCRE2 at hand may not
 * know. On failure *out is as before.
 * PF_NOMEM: also where a pattern needs more than 256 MiB; PF_LIMIT: the text is longer than 2^30 bytes, or the file's
 * patterns take too long on it, or its normalizers and Metaspaces make it longer, all steps and parts together, by more than
 * 64 bytes for each of its own and a MiB; PF_UNSUPPORTED: the text holds what the vocabulary has no token for, nor one for
 * what it lacks (unk_token). */
PF_MUST_USE pf_status pf_tokenizer_encode(const pf_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                          bool add_special, const volatile bool *cancel, pf_tokens *out);

/* Why it refuses: the half of a sentence that follows one about a text's bytes. A static string. */
const char *pf_tokenizer_refusal(pf_status status);

/* One more than the largest id that exists. */
int32_t pf_tokenizer_vocab_size(const pf_tokenizer *tokenizer);

/* The same of the vocabulary that was trained: without what was added to it. */
int32_t pf_tokenizer_base_size(const pf_tokenizer *tokenizer);

/* Whether it is an added token that is special. */
bool pf_tokenizer_is_special(const pf_tokenizer *tokenizer, int32_t id);

/* SHA-256 over every token that exists below n_ids, in order of id: id (u32 little endian), length (u32), the token's bytes.
 * Two vocabularies are one when their fingerprints are equal. An embedding's padding is not part of it, nor, where n_ids
 * is the embedding's rows, a token that has none. PF_UNAVAILABLE: OpenSSL has no memory, or is set up without SHA-256. */
PF_MUST_USE pf_status pf_tokenizer_fingerprint(const pf_tokenizer *tokenizer, int32_t n_ids, uint8_t out[32],
                                               pf_error *error);

#endif
