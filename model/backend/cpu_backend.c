#include "model/backend/cpu_backend.h"

static pf_status acquire(void *state, int64_t *out)
{
    return pf_kv_acquire(pf_context_kv(state), out);
}

static pf_status fork_sequence(void *state, int64_t sequence, int32_t length, int64_t *out)
{
    return pf_kv_fork(pf_context_kv(state), sequence, length, out);
}

static void release(void *state, int64_t sequence)
{
    pf_kv_release(pf_context_kv(state), sequence);
}

/* pf_context_kv is no const function, and these are: the cache is only read. */
static int32_t length(const void *state, int64_t sequence)
{
    return pf_kv_length(pf_context_kv((pf_context *)(uintptr_t)state), sequence);
}

static int32_t reachable(const void *state, int64_t sequence, int32_t wanted)
{
    return pf_kv_reachable(pf_context_kv((pf_context *)(uintptr_t)state), sequence, wanted);
}

static pf_status truncate_sequence(void *state, int64_t sequence, int32_t n_tokens)
{
    return pf_kv_truncate(pf_context_kv(state), sequence, n_tokens);
}

static pf_status keep(void *state, int64_t sequence, int32_t n_tokens, const int32_t *rows, int32_t n_rows)
{
    return pf_kv_keep(pf_context_kv(state), sequence, n_tokens, rows, n_rows);
}

static pf_status run(void *state, const pf_span *spans, int32_t n_spans)
{
    return pf_context_forward(state, spans, n_spans);
}

static float *logits(void *state, int32_t row)
{
    return pf_context_logits(state, row);
}

static int32_t best(const void *state, int32_t row, int32_t best_of)
{
    return pf_context_best(state, row, best_of);
}

static int32_t find_invalid(const void *state, int32_t row, int32_t n)
{
    return pf_context_find_invalid(state, row, n);
}

static void share(void *state, pf_team_fn *fn, void *arg)
{
    pf_context_run_members(state, fn, arg);
}

static void set_stop(void *state, pf_stop *stop)
{
    pf_context_set_stop(state, stop);
}

static void count_pages(const void *state, int64_t *n_pages, int64_t *n_used)
{
    const pf_kv *kv = pf_context_kv((pf_context *)(uintptr_t)state);
    *n_pages = (int64_t)pf_kv_pages(kv);
    *n_used = *n_pages - (int64_t)pf_kv_free_pages(kv);
}

static const pf_forward_ops ops = {
    .acquire = acquire,
    .fork = fork_sequence,
    .release = release,
    .length = length,
    .reachable = reachable,
    .truncate = truncate_sequence,
    .keep = keep,
    .run = run,
    .logits = logits,
    .best = best,
    .find_invalid = find_invalid,
    .share = share,
    .set_stop = set_stop,
    .pages = count_pages,
};

pf_forward_backend pf_cpu_backend(pf_context *context)
{
    const pf_context_config *config = pf_context_get_config(context);
    return (pf_forward_backend){ .ops = &ops,
                                 .state = context,
                                 .limits = { .max_tokens = config->max_tokens,
                                             .max_sequences = config->max_sequences,
                                             .max_forks = config->max_forks,
                                             .max_rows = config->max_rows,
                                             .max_logit_rows = config->max_logit_rows,
                                             .n_vocab = pf_context_n_vocab(context),
                                             .n_threads = pf_context_n_threads(context) },
                                 .kernels = pf_model_kernels(pf_context_model(context)) };
}
