/*
 * Turns the tokenizer of a GGUF file into the document that a tokenizer.json would be, so that both are read by one reader.
 *
 *   tokenizer.ggml.model     gpt2: byte-level BPE by merges   llama: SentencePiece, merged by scores, with byte fallback
 *                            t5: SentencePiece, unigram, with precompiled_charsmap and remove_extra_whitespaces
 *   tokenizer.ggml.pre       gpt2: the name of a row of gguf_pretokenizers.c
 *   tokenizer.ggml.tokens, token_type, merges, scores, bos_token_id, ..., add_bos_token, add_eos_token, add_space_prefix
 *
 * Control tokens become special added tokens, tokens defined by the user plain added ones. A GGUF file does not keep the flags
 * lstrip, rstrip and single_word, nor normalizers: NFC is set where the published tokenizers of a pre-tokenizer's name have it.
 *
 * Source: gguf-py/gguf/constants.py and src/llama-vocab.cpp of ggml-org/llama.cpp for keys, types and defaults.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_GGUF_TOKENIZER_H
#define PF_TOKENIZER_GGUF_TOKENIZER_H

#include "base/json.h"
#include "gguf/gguf.h"

/* The pre-tokenizer of a name. */
typedef struct {
    json_t *pre_tokenizer; /* owned by the caller */
    bool ignore_merges;
    bool add_bos; /* where the file does not say */
    bool nfc;
} pf_gguf_pretokenizer;

/* PF_UNSUPPORTED: the name is not known; the sentence names file and value. PF_NOMEM. */
PF_MUST_USE pf_status pf_gguf_pretokenizer_create(const char *path, pf_gguf_string name, pf_gguf_pretokenizer *out,
                                                  pf_error *error);

/* PF_UNAVAILABLE: the file has no tokenizer.  PF_UNSUPPORTED: another model or pre-tokenizer.  PF_FORMAT: the sentence names
 * file and key.  PF_LIMIT, PF_NOMEM. The caller ends it with pf_json_close. */
PF_MUST_USE pf_status pf_gguf_tokenizer_document(const pf_gguf *file, pf_json *out, pf_error *error);

#endif
