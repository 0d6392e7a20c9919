/*
 * Writes config.json for converted weights: the original document with the keys that describe the weights replaced. Internal
 * to model/.
 *
 *   quantization_config   for integers, as config.c reads it
 *   dtype, torch_dtype    for other types, under the names that the original has
 *   pilotfish_dtype       "f16" where AUTO is to keep F16, else absent
 *   tie_word_embeddings   false where the files have an LM head that differs from the embedding (checkpoint.h)
 */
#ifndef PF_MODEL_CONFIG_WRITER_H
#define PF_MODEL_CONFIG_WRITER_H

#include <stddef.h>

#include "base/status.h"
#include "model/files/checkpoint.h"
#include "model/config/dtype.h"

/* Prints the document into *out [*n_bytes], which the caller frees with free(). `type`: the element type that `dtype` is
 * written in. As pf_json_open for the original. PF_NOMEM; PF_LIMIT: the document would be too long to be read. */
PF_MUST_USE pf_status pf_config_print_converted(const pf_checkpoint *from, pf_dtype dtype, pf_type type, char **out,
                                                size_t *n_bytes, pf_error *error);

#endif
