/*
 * A model's directory written anew with its weights in another format, so that they need not be rounded at every load.
 *
 *   integers        all that is multiplied, a tied embedding with it, as checkpoint.h draws them; norms, biases and an
 *                   embedding that is only looked up stay as they are
 *   f32, f16, bf16  all matrices in that type; norms and biases stay as they are
 *
 * The logits of what is written are bit for bit those of the original loaded with the same --dtype: rounding is
 * pf_gemm_quantise_row's, which packing uses too. config.json says what was done; the tokenizer's files and
 * generation_config.json are copied.
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
    pf_dtype dtype;                                                      /* f32, f16, bf16 or one of integers */
    pf_team *team;                                                       /* rounds; borrowed */
    void (*progress)(void *user, size_t done_bytes, size_t total_bytes); /* of the original; or NULL */
    void *progress_user;
    const volatile bool *cancel; /* looked at every few megabytes; or NULL */
    pf_load_policy policy;       /* about keys and tensors of the original that are not read */
    /* Told where files are written until all are there (staging.h), while a file that is cut short may end the process; then
     * NULL. Or NULL. */
    void (*writing)(const char *directory);
} pf_quantize_options;

typedef struct {
    size_t bytes_before, bytes_after; /* of tensors, scales and heads included */
    int32_t n_tensors;                /* matrices and vectors */
} pf_quantize_result;

/* Read the directory `from` and make the directory `to`, which must be absent or empty.
 * As pf_checkpoint_open and staging.h. PF_INVALID: the dtype is not one to be written.  PF_UNSUPPORTED: `from` is
 * quantised already.  PF_LIMIT: its config.json would be longer than one may be.  PF_CANCELLED. On failure `to` is as
 * before, and nothing is left beside it. */
PF_MUST_USE pf_status pf_model_quantize(const char *from, const char *to, const pf_quantize_options *options,
                                        pf_quantize_result *out, pf_error *error);

#endif
