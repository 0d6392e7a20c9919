/*
 * Turns a vocab.json and a merges.txt, as byte-level tokenizers had them before tokenizer.json, into the document that a
 * tokenizer.json would be. The class that tokenizer_config.json names says how text is split:
 *
 *   GPT2Tokenizer, CodeGenTokenizer, none   GPT-2's pattern (GPT-2, GPT-J, OPT, StarCoder, Phi, CodeGen)
 *   GPTNeoXTokenizer                        the same behind NFC
 *   Qwen2Tokenizer, Qwen3_5Tokenizer        NFC and Qwen's pattern
 *
 * A text begins with bos_token where add_bos_token is true, and ends with eos_token where add_eos_token is.
 *
 * Source: models/gpt2, gpt_neox, qwen2 and qwen3_5 of transformers 5.23; models/bpe of tokenizers 0.23 for merges.txt.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_VOCAB_MERGES_H
#define PF_TOKENIZER_VOCAB_MERGES_H

#include <stddef.h>

#include "base/json.h"
#include "tokenizer/files/tokenizer_config.h"

enum { PF_MAX_MERGES_BYTES = 1 << 26 };

/* vocab: vocab.json. merges [n_merges] is the text of the file merges_name. PF_FORMAT, PF_UNSUPPORTED: the sentence names file
 * and line or field. PF_NOMEM. The caller ends *out with pf_json_close. */
PF_MUST_USE pf_status pf_vocab_merges_document(const pf_json *vocab, const char *merges_name, const char *merges,
                                               size_t n_merges, const pf_tokenizer_files *files, pf_json *out,
                                               pf_error *error);

#endif
