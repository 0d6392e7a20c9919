/*
 * Turns the metadata of a GGUF file into the document that a config.json would be, so that both are read by one reader.
 *
 *      gguf_architectures.c   the table: a row has an architecture of llama.cpp, the class of transformers that computes the same,
 *                             and the keys and names of tensors that are its own
 *      gguf_config.c          the document: dimensions, windows, experts, keys that are refused
 *      gguf_rope.c            its RoPE dictionary
 *
 * A key of the architecture that is not known is refused by name, since it could change the logits.
 *
 * Source: gguf-py/gguf/constants.py and tensor_mapping.py, conversion/ and src/models/ of ggml-org/llama.cpp.
 */
#ifndef PF_MODEL_GGUF_CONFIG_H
#define PF_MODEL_GGUF_CONFIG_H

#include "base/json.h"
#include "gguf/gguf.h"
#include "model/config/config.h"

/* *form: pf_config.gguf, but for what the plan decides. PF_UNSUPPORTED: an architecture, a key or a value that is not implemented.
 * PF_FORMAT: a key is absent, of the wrong type or out of range; the sentence names file and key.  PF_NOMEM. The caller ends the
 * document with pf_json_close. */
PF_MUST_USE pf_status pf_gguf_config_document(const pf_gguf *file, pf_json *out, pf_gguf_form *form, pf_error *error);

/* Where a GGUF file has a role. */
const pf_tensor_pattern *pf_gguf_pattern(const pf_config *config, pf_tensor_role role);

/* Whether a tensor is read with the metadata, or is a table that is computed: frequencies of RoPE and their divisors. */
bool pf_gguf_is_rope_tensor(const char *name);

#endif
