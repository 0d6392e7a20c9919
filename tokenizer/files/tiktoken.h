/*
 * Turns a file of tiktoken into the document that a tokenizer.json would be: a line for each token, its bytes in base64, a space,
 * and its rank, which is its id. Merges are not listed: neighbors join whose text is a token, the lowest rank first
 * (rank_merges.c). What the file does not say is fixed by its name and by the class of tokenizer_config.json:
 *
 *   qwen.tiktoken (Qwen 1)           NFC, Qwen's pattern; <|endoftext|>, <|im_start|>, <|im_end|>, <|extra_0|> to <|extra_204|>
 *   tokenizer.model of GLM-4         Llama 3's pattern; tokens of tokenizer_config.json; begins with [gMASK]<sop>
 *   tokenizer.model of Llama 3       Llama 3's pattern; its 256 special tokens unless tokenizer_config.json lists tokens
 *
 * Source: openai/tiktoken (load.py, _educational.py); tokenization_qwen.py of Qwen-7B; tokenizer.py of meta-llama/llama3;
 * tokenization_chatglm.py of glm-4-9b-chat.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_TIKTOKEN_H
#define PF_TOKENIZER_TIKTOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "tokenizer/files/tokenizer_config.h"

enum { PF_MAX_TIKTOKEN_BYTES = 1 << 26 };

/* Whether text [n] begins as such a file does: a tokenizer.model has this form or SentencePiece's. */
bool pf_tiktoken_is_file(const char *text, size_t n);

/* text [n] is the file `name`; files: those beside it; is_qwen: it is qwen.tiktoken. PF_FORMAT, PF_UNSUPPORTED: the sentence names
 * file and line. PF_LIMIT, PF_NOMEM. The caller ends *out with pf_json_close. */
PF_MUST_USE pf_status pf_tiktoken_document(const char *name, const char *text, size_t n, bool is_qwen,
                                           const pf_tokenizer_files *files, pf_json *out, pf_error *error);

#endif
