/* A tiny random model, loaded and ready to run: what the tests of drafters and verifiers stand on. */
#ifndef PF_TESTS_SUPPORT_TINY_SIDE_H
#define PF_TESTS_SUPPORT_TINY_SIDE_H

#include <stdint.h>

#include "base/team.h"
#include "model/forward/context.h"
#include "model/weights/model.h"
#include "model/sampling/sampling.h"
#include "tests/support/tiny_model.h"

typedef struct {
    pf_team *team;
    pf_model *model;
    pf_context *context;
} pf_tiny_side;

/* Write the model to a directory of its own, load it in float32 and remove the directory. Zero fields of `config` stand
 * for 128 tokens, 1 sequence, 64 rows, as many logit rows, an F32 cache. Whatever goes wrong aborts with a sentence. */
pf_tiny_side pf_tiny_side_open(const pf_tiny_model *model, int32_t n_threads, const pf_context_config *config);
void pf_tiny_side_close(pf_tiny_side *side);

/* What plain decoding gives by the definition, one token a pass: the argmax, or the Gumbel-max draw with the noise of
 * the position. Its own sequence in the context's cache, released at the end. Writes n_new tokens to out. */
void pf_tiny_side_decode(const pf_tiny_side *side, const pf_sampling *sampling, const int32_t *prompt, int32_t n_prompt,
                         int32_t n_new, int32_t *out);

/* The distribution of the token behind `prefix`, as [n_vocab] probabilities. */
void pf_tiny_side_distribution(const pf_tiny_side *side, const pf_sampling *sampling, const int32_t *prefix, int32_t n,
                               float *out);

#endif
