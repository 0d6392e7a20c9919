/*
 * Turns the metadata of a GGUF file into the document that a config.json would be, so that both are read by one reader.
 *
 * A row of the table (gguf_config.c) has an architecture of llama.cpp and the class of transformers that computes the same. A key of
 * the architecture that is not known is refused by name, since it could change the logits. Names of tensors are one column for all
 * architectures.
 *
 * Source: gguf-py/gguf/constants.py and convert_hf_to_gguf.py of ggml-org/llama.cpp.
 */
#ifndef PF_MODEL_GGUF_CONFIG_H
#define PF_MODEL_GGUF_CONFIG_H

#include "base/json.h"
#include "gguf/gguf.h"
#include "model/config/plan.h"

/* *head_pairs: pf_config.head_pairs. PF_UNSUPPORTED: another architecture, or a key that is not known.  PF_FORMAT: a key is absent, of
 * the wrong type or out of range; the sentence names file and key.  PF_NOMEM. The caller ends it with pf_json_close. */
PF_MUST_USE pf_status pf_gguf_config_document(const pf_gguf *file, pf_json *out, bool *head_pairs, pf_error *error);

/* Where a GGUF file has a role. */
const pf_tensor_pattern *pf_gguf_pattern(pf_tensor_role role);

/* The divisors of RoPE's frequencies, F32 [half the rotated dimensions], which are read with the metadata. */
#define PF_GGUF_ROPE_FREQS "rope_freqs.weight"

#endif
