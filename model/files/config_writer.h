/*
 * config.json of a directory whose weights are written anew: the original's, but for what it says of its weights. Internal to
 * model/.
 *
 *   quantization_config   of integers: what config.c reads
 *   dtype, torch_dtype    of numbers: under the names that the original has
 *   pilotfish_dtype       "f16" where numbers are to be used as F16, else absent
 *   tie_word_embeddings   false where the files have a head that is not the embedding (checkpoint.h)
 */
#ifndef PF_MODEL_CONFIG_WRITER_H
#define PF_MODEL_CONFIG_WRITER_H

#include <stddef.h>

#include "base/status.h"
#include "model/files/checkpoint.h"
#include "model/config/dtype.h"

/* Into *out [*n_bytes], which the caller frees with free(). `type`: of numbers, as `dtype` is written.
 * As pf_json_open of the original's. PF_NOMEM; PF_LIMIT: it would be longer than a config.json may be. */
PF_MUST_USE pf_status pf_config_write_anew(const pf_checkpoint *from, pf_dtype dtype, pf_type type, char **out,
                                           size_t *n_bytes, pf_error *error);

#endif
