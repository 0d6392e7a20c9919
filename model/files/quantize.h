/*
 * Writes a copy of a model directory with its weights in another format, so that they need not be rounded at every load.
 *
 *   integers        every matrix that is multiplied, a tied embedding included, laid out as in checkpoint.h; norms, biases and
 *                   an embedding that is only looked up keep their type
 *   f32, f16, bf16  all matrices in that type; norms and biases keep theirs
 *
 * The logits of the copy are bit for bit those of the original loaded with the same --dtype: both round with
 * pf_gemm_quantise_row. config.json names the format; the tokenizer's files and generation_config.json are copied.
 */
#ifndef PF_MODEL_QUANTIZE_H
#define PF_MODEL_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/team.h"
#include "model/config/dtype.h"
#include "model/config/load_policy.h"

typedef struct {
    pf_dtype dtype;                                                      /* f32, f16, bf16 or an integer format */
    pf_team *team;                                                       /* does the rounding; borrowed */
    void (*progress)(void *user, size_t done_bytes, size_t total_bytes); /* bytes of the original; or NULL */
    void *progress_user;
    const volatile bool *cancel; /* polled every few megabytes; or NULL */
    pf_load_policy policy;       /* about keys and tensors of the original that are not read */
    /* Called with the directory that files are written to (staging.h), and with NULL when it is complete or removed: a signal
     * handler may have to remove it where a truncated input ends the process. Or NULL. */
    void (*writing)(const char *directory);
} pf_model_quantize_options;

typedef struct {
    size_t bytes_before, bytes_after; /* of tensors, scales and group parameters included */
    int32_t n_tensors;                /* matrices and vectors */
} pf_model_quantize_result;

/* Reads the directory `from` and creates the directory `to`, which must be absent or empty.
 * As pf_checkpoint_open and staging.h. PF_INVALID: the dtype exists in memory only.  PF_UNSUPPORTED: `from` is quantised
 * already.  PF_LIMIT: the new config.json would be too long.  PF_CANCELLED. On failure `to` is unchanged and no temporary
 * file is left. */
PF_MUST_USE pf_status pf_model_quantize(const char *from, const char *to, const pf_model_quantize_options *options,
                                        pf_model_quantize_result *out, pf_error *error);

#endif
