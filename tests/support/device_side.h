/* A tiny random model on the CUDA backend, on the emulation of tests/cuda-shim: what near_bench.h takes in place of the CPU. */
#ifndef PF_TESTS_SUPPORT_DEVICE_SIDE_H
#define PF_TESTS_SUPPORT_DEVICE_SIDE_H

#include "model/forward/context.h"
#include "model/sampling/sampling.h"
#include "tests/support/tiny_model.h"
#include "verify/cuda/cuda_backend.h"

#ifdef PF_TEST_DEVICE_SIDE /* else near_bench.h has these names for the CPU */

enum { NEAR_SIDE_SLOWNESS = 6 }; /* repetitions are divided by it */

typedef struct {
    pf_cuda_backend *cuda;
    int32_t max_logit_rows; /* 0: the backend's */
} near_side;

/* Zero fields of the config stand for 128 tokens, 1 sequence, as few rows as most tests need. */
near_side near_side_open(const pf_tiny_model *model, const pf_context_config *config);
void near_side_close(near_side *side);
pf_forward_backend near_side_backend(const near_side *side);

/* By logits on the host, a token a pass, in a sequence of its own. */
void near_side_decode(const near_side *side, const pf_sampling *sampling, const int32_t *prompt, int32_t n_prompt,
                      int32_t n_new, int32_t *out);
void near_side_distribution(const near_side *side, const pf_sampling *sampling, const int32_t *prefix, int32_t n,
                            float *out);

/* Of the cache, which pf_context_config.kv_budget_bytes may limit. */
size_t near_side_page_bytes(const near_side *side);
int32_t near_side_page_tokens(const near_side *side);

#endif
#endif
