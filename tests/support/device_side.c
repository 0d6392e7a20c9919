#include "tests/support/device_side.h"

#include <stdlib.h>

#include "tests/support/test.h"
#include "verify/cuda/page_tables.h"

enum { ROWS = 16 };

/* Of keys and values in BF16, of all layers. */
static size_t page_bytes(const pf_config *c)
{
    return (size_t)c->n_layers * 2 * (size_t)c->n_kv_heads * PF_PAGE_TOKENS * (size_t)c->head_dim * sizeof(uint16_t);
}

static pf_cuda_backend *open_cuda(const char *directory, const pf_cuda_options *options)
{
    pf_cuda_backend *cuda = NULL;
    pf_error error = { 0 };
    assert_ok(pf_cuda_backend_open(directory, options, &cuda, &error), error);
    return cuda;
}

near_side near_side_open(const pf_tiny_model *model, const pf_context_config *config)
{
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(model, directory);
    pf_cuda_options options = { .max_tokens = config->max_tokens > 0 ? config->max_tokens : 128,
                                .max_sequences = config->max_sequences > 0 ? config->max_sequences : 1,
                                .max_rows = config->max_rows > 0 ? config->max_rows : ROWS,
                                .segment_tokens = 4 * PF_PAGE_TOKENS,
                                .isa = pf_cpu_best_isa() };
    pf_cuda_backend *cuda = open_cuda(directory, &options);
    if (config->kv_budget_bytes > 0) {
        options.kv_pages = (int32_t)(config->kv_budget_bytes / page_bytes(pf_cuda_backend_config(cuda)));
        pf_cuda_backend_close(cuda);
        cuda = open_cuda(directory, &options);
    }
    pf_tiny_model_remove(directory);
    return (near_side){ cuda, config->max_logit_rows };
}

void near_side_close(near_side *side)
{
    pf_cuda_backend_close(side->cuda);
}

pf_forward_backend near_side_backend(const near_side *side)
{
    pf_forward_backend backend = pf_cuda_forward_backend(side->cuda);
    if (side->max_logit_rows > 0) backend.limits.max_logit_rows = side->max_logit_rows;
    return backend;
}

size_t near_side_page_bytes(const near_side *side)
{
    return page_bytes(pf_cuda_backend_config(side->cuda));
}

int32_t near_side_page_tokens(const near_side *side)
{
    (void)side;
    return PF_PAGE_TOKENS;
}

/* A sequence of these tokens, whose last row has logits. */
static int64_t read_tokens(const pf_forward_backend *b, const int32_t *tokens, int32_t n)
{
    int64_t sequence;
    assert_status(pf_forward_acquire(b, &sequence), PF_OK);
    for (int32_t at = 0, size; at < n; at += size) {
        size = n - at < b->limits.max_rows ? n - at : b->limits.max_rows;
        const pf_span span = {
            .sequence = sequence, .tokens = tokens + at, .n_tokens = size, .n_logits = at + size == n
        };
        assert_status(pf_forward_run(b, &span, 1), PF_OK);
    }
    return sequence;
}

/* Of row 0 of the last pass. */
static void fill_distribution(const pf_forward_backend *b, const pf_sampling *sampling, float *out)
{
    const int32_t n_vocab = b->limits.n_vocab;
    void *scratch = malloc(pf_sampling_scratch_bytes(n_vocab));
    assert_status(pf_sampling_distribution(sampling, b->kernels, pf_forward_logits(b, 0), n_vocab, out, scratch),
                  PF_OK);
    free(scratch);
}

void near_side_distribution(const near_side *side, const pf_sampling *sampling, const int32_t *prefix, int32_t n,
                            float *out)
{
    const pf_forward_backend b = near_side_backend(side);
    const int64_t sequence = read_tokens(&b, prefix, n);
    fill_distribution(&b, sampling, out);
    pf_forward_release(&b, sequence);
}

void near_side_decode(const near_side *side, const pf_sampling *sampling, const int32_t *prompt, int32_t n_prompt,
                      int32_t n_new, int32_t *out)
{
    const pf_forward_backend b = near_side_backend(side);
    const int32_t n_vocab = b.limits.n_vocab;
    float *p = malloc((size_t)n_vocab * sizeof *p);
    const int64_t sequence = read_tokens(&b, prompt, n_prompt);
    for (int32_t i = 0; i < n_new; i++) {
        fill_distribution(&b, sampling, p);
        out[i] = sampling->temperature == 0.0f
                     ? b.kernels->argmax(p, n_vocab)
                     : b.kernels->race(p, n_vocab, sampling->seed, PF_NOISE_TARGET, n_prompt + i);
        if (i + 1 == n_new) break;
        const pf_span span = { .sequence = sequence, .tokens = &out[i], .n_tokens = 1, .n_logits = 1 };
        assert_status(pf_forward_run(&b, &span, 1), PF_OK);
    }
    pf_forward_release(&b, sequence);
    free(p);
}
