#include "tests/support/tiny_side.h"

#include <stdio.h>
#include <stdlib.h>

static void demand(pf_status status, const char *what, const pf_error *error)
{
    if (status == PF_OK) return;
    fprintf(stderr, "tiny_side: %s: %s: %s\n", what, pf_status_name(status), error ? error->text : "");
    abort();
}

pf_tiny_side pf_tiny_side_open(const pf_tiny_model *model, int32_t n_threads, const pf_context_config *config)
{
    pf_tiny_side side = { 0 };
    pf_error error = { 0 };
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(model, directory);
    demand(pf_team_create(n_threads, NULL, 0, &side.team, &error), "team", &error);
    const pf_model_options options = { .dtype = PF_DTYPE_F32, .isa = pf_cpu_best_isa(), .team = side.team };
    demand(pf_model_load(directory, &options, &side.model, &error), "load", &error);
    pf_tiny_model_remove(directory);

    pf_context_config c = *config;
    if (c.max_tokens == 0) c.max_tokens = 128;
    if (c.max_sequences == 0) c.max_sequences = 1;
    if (c.max_rows == 0) c.max_rows = 64;
    if (c.max_logit_rows == 0) c.max_logit_rows = c.max_rows;
    demand(pf_context_create(side.model, side.team, &c, &side.context, &error), "context", &error);
    return side;
}

void pf_tiny_side_close(pf_tiny_side *side)
{
    pf_context_destroy(side->context);
    pf_model_release(side->model);
    pf_team_destroy(side->team);
    *side = (pf_tiny_side){ 0 };
}

void pf_tiny_side_distribution(const pf_tiny_side *side, const pf_sampling *sampling, const int32_t *prefix, int32_t n,
                               float *out)
{
    const int32_t n_vocab = pf_context_n_vocab(side->context);
    pf_kv *kv = pf_context_kv(side->context);
    pf_kv_seq sequence;
    demand(pf_kv_acquire(kv, &sequence), "acquire", NULL);
    demand(pf_context_prefill(side->context, sequence, prefix, n, true), "prefill", NULL);
    void *scratch = malloc(pf_sampling_scratch_bytes(n_vocab));
    demand(pf_sampling_distribution(sampling, pf_model_kernels(side->model), pf_context_logits(side->context, 0),
                                    n_vocab, out, scratch),
           "distribution", NULL);
    free(scratch);
    pf_kv_release(kv, sequence);
}

void pf_tiny_side_decode(const pf_tiny_side *side, const pf_sampling *sampling, const int32_t *prompt, int32_t n_prompt,
                         int32_t n_new, int32_t *out)
{
    const int32_t n_vocab = pf_context_n_vocab(side->context);
    pf_kv *kv = pf_context_kv(side->context);
    float *p = malloc((size_t)n_vocab * sizeof *p);
    void *scratch = malloc(pf_sampling_scratch_bytes(n_vocab));
    pf_kv_seq sequence;
    demand(pf_kv_acquire(kv, &sequence), "acquire", NULL);
    demand(pf_context_prefill(side->context, sequence, prompt, n_prompt, true), "prefill", NULL);
    for (int32_t i = 0; i < n_new; i++) {
        const pf_kernels *kernels = pf_model_kernels(side->model);
        const float *logits = pf_context_logits(side->context, 0);
        demand(pf_sampling_distribution(sampling, kernels, logits, n_vocab, p, scratch), "distribution", NULL);
        out[i] = sampling->temperature == 0.0f
                     ? kernels->argmax(logits, n_vocab)
                     : kernels->race(p, n_vocab, sampling->seed, PF_NOISE_TARGET, n_prompt + i);
        if (i + 1 < n_new) {
            const pf_span span = { .sequence = sequence, .tokens = &out[i], .n_tokens = 1, .n_logits = 1 };
            demand(pf_context_forward(side->context, &span, 1), "forward", NULL);
        }
    }
    free(scratch);
    free(p);
    pf_kv_release(kv, sequence);
}
