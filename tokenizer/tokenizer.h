/*
 * Encodes text to token ids by a tokenizer.json of Hugging Face, exactly as its library does, or by another form of file
 * (tokenizer/files/tokenizer_directory.c). Decoding: tokenizer/decode/detokenize.h.
 *
 * Added tokens are matched first; the remaining text is normalized, split by the pre-tokenizer (regular expressions run on
 * PCRE2), and each piece is encoded by the model: BPE merges by rank, Unigram takes the most likely tokens. In BPE a piece starts
 * as its bytes (ByteLevel, GPT-2's bytes-to-unicode table), or as its characters, where a character without a token becomes byte
 * tokens ("<0xC3>", byte_fallback). Input need not be UTF-8: each invalid byte is a piece of its own, decodes to itself, and
 * gets no prefix space after it. Features of a file that are not supported are refused by name (PF_UNSUPPORTED);
 * docs/numerics.md lists the supported ones.
 *
 * A tokenizer is immutable. Any number of threads may use it, each with its own output buffers.
 */
#ifndef PF_TOKENIZER_TOKENIZER_H
#define PF_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "include/pilotfish.h"
#include "tokenizer/encode/tokens.h"

/* pf_tokenizer_open (include/pilotfish.h) reads DIR/tokenizer.json, or what else is there, and the tokens that
 * tokenizer_config.json, special_tokens_map.json and added_tokens.json add, if these files exist
 * (tokenizer/files/tokenizer_config.h). Only tokenizer.json decides how text is split and which tokens surround it: add_bos_token
 * has no effect, as in transformers 5, and neither has tokenizer_class, as in transformers 4 (version 5 splits by the pattern of
 * GPT-2 or Qwen2 for classes of these names). Or DIR is a GGUF file, whose metadata have a tokenizer
 * (tokenizer/files/gguf_tokenizer.h). */

/* Whether `path` is a GGUF file, or a directory with a tokenizer in a form that pf_tokenizer_open reads. Nothing is read. */
bool pf_tokenizer_is_there(const char *path);

/* Appends the ids of text [n_bytes]. add_special: with the tokens that the post-processor adds (BOS and the like). cancel,
 * or NULL: once it is true the call returns PF_CANCELLED; it is checked for each piece.
 * Special tokens that the text contains are recognized, as in transformers by default. Ids equal those of Hugging Face's
 * tokenizers 0.23, also for characters of Unicode 16 that the installed PCRE2 does not know. On failure *out is unchanged.
 * PF_NOMEM: also if a pattern needs more than 256 MiB.  PF_LIMIT: the text is longer than 2^30 bytes, the patterns take too
 * long on it, or normalizers and Metaspaces together add more than 64 bytes for each byte and a MiB.  PF_UNSUPPORTED: the
 * vocabulary lacks a token for a part of the text and has no unk_token. */
PF_MUST_USE pf_status pf_tokenizer_encode(const pf_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                          bool add_special, const volatile bool *cancel, pf_tokens *out);

/* The reason for an error of pf_tokenizer_encode, to follow a clause on the bytes of the text. A static string. */
const char *pf_tokenizer_refusal(pf_status status);

/* One more than the largest id that exists. */
int32_t pf_tokenizer_vocab_size(const pf_tokenizer *tokenizer);

/* The same without added tokens. */
int32_t pf_tokenizer_base_size(const pf_tokenizer *tokenizer);

/* Whether `id` is an added token with the flag special. */
bool pf_tokenizer_is_special(const pf_tokenizer *tokenizer, int32_t id);

/* The bytes of a token, as the fingerprint has them; borrowed. NULL: the id does not exist. */
const char *pf_tokenizer_token_bytes(const pf_tokenizer *tokenizer, int32_t id, size_t *n_bytes);

/* SHA-256 over every token that exists below n_ids, in order of id: id (u32 little endian), length (u32), the token's bytes.
 * Equal fingerprints mean equal vocabularies. With n_ids the rows of the embedding, padding rows and tokens without a row
 * are not included. PF_UNAVAILABLE: OpenSSL has no memory, or is configured without SHA-256. */
PF_MUST_USE pf_status pf_tokenizer_fingerprint(const pf_tokenizer *tokenizer, int32_t n_ids, uint8_t out[32],
                                               pf_error *error);

#endif
