/*
 * Turns a tokenizer.model into the document that a tokenizer.json would be. What is put around the pieces depends on the class
 * that tokenizer_config.json names:
 *
 *   LlamaTokenizer, CodeLlamaTokenizer, none   as transformers converts them: marks for spaces and, unless add_prefix_space is false,
 *                                              before each text between special tokens (legacy: false: before the first alone)
 *   GemmaTokenizer                             as transformers converts it: marks for spaces
 *   InternLM, InternLM2, InternLM3, Baichuan, Yi, Orion, MiniCPM, ChatGLM   the normalizer of the model, as SentencePiece applies it
 *
 * Control pieces become special tokens, and pieces that the user defines plain added ones, before text is normalized.
 * ChatGLM's tokens ([gMASK], sop and others) follow the pieces, and two of them begin a text.
 *
 * Source: SpmConverter, LlamaConverter and GemmaConverter of transformers (convert_slow_tokenizer.py); normalizer.cc of SentencePiece.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_SENTENCEPIECE_TOKENIZER_H
#define PF_TOKENIZER_SENTENCEPIECE_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "tokenizer/files/sentencepiece_model.h"
#include "tokenizer/files/tokenizer_config.h"

/* data [n] is the file `name`; files: those beside it. PF_FORMAT, PF_UNSUPPORTED: the sentence names file and field. PF_LIMIT,
 * PF_NOMEM. The caller ends *out with pf_json_close. */
PF_MUST_USE pf_status pf_sentencepiece_document(const char *name, const uint8_t *data, size_t n,
                                                const pf_tokenizer_files *files, pf_json *out, pf_error *error);

/* The normalizer of a model as SentencePiece applies it: the table [n_charsmap], spaces, a mark in front, marks for spaces. NULL:
 * no memory. */
json_t *pf_sentencepiece_normalizer(const uint8_t *charsmap, size_t n_charsmap, bool removes_spaces, bool adds_prefix);

#endif
