#include "verify/cuda/cuda_draws.h"

#include <assert.h>

#include "verify/cuda/cuda_device.h"

static size_t rows_bytes(const pf_cuda_draws *d)
{
    return (size_t)d->n_rows * sizeof(pf_cuda_row_draw);
}

static pf_cuda_entry *entries_in(const pf_cuda_draws *d, unsigned char *input)
{
    return (pf_cuda_entry *)(void *)(input + rows_bytes(d));
}

pf_status pf_cuda_draws_create(pf_cuda_draws *d, int32_t n_rows, int32_t n_vocab, pf_error *error)
{
    d->n_rows = n_rows;
    d->n_vocab = n_vocab;
    const size_t n = (size_t)n_rows, input_bytes = rows_bytes(d) + n * PF_CUDA_MAX_ENTRIES * sizeof(pf_cuda_entry);
    PF_TRY(pf_cuda_allocate_pinned((void **)&d->input, input_bytes, error));
    PF_TRY(pf_cuda_allocate((void **)&d->device_input, input_bytes, "draws", error));
    PF_TRY(pf_cuda_allocate((void **)&d->p, n * (size_t)n_vocab * sizeof(float), "distributions", error));
    PF_TRY(pf_cuda_allocate_pinned((void **)&d->out, 2 * n * sizeof(int32_t), error));
    return pf_cuda_allocate((void **)&d->device_results, 2 * n * sizeof(int32_t), "draws", error);
}

void pf_cuda_draws_destroy(pf_cuda_draws *d)
{
    (void)cudaFreeHost(d->input);
    (void)cudaFreeHost(d->out);
    (void)cudaFree(d->device_input);
    (void)cudaFree(d->p);
    (void)cudaFree(d->device_results);
}

static int32_t kind_of(pf_draw_kind kind)
{
    switch (kind) {
    case PF_DRAW_RACE: return PF_CUDA_DRAW_RACE;
    case PF_DRAW_JUDGE: return PF_CUDA_DRAW_JUDGE;
    default: return PF_CUDA_DRAW_NONE;
    }
}

/* Fills the input's rows and entries. Returns its bytes. */
static size_t fill(const pf_cuda_draws *d, const pf_draw *wanted, int32_t n)
{
    pf_cuda_row_draw *rows = (pf_cuda_row_draw *)(void *)d->input;
    pf_cuda_entry *entries = entries_in(d, d->input);
    int32_t n_entries = 0;
    for (int32_t i = 0; i < n; i++) {
        const pf_draw *w = &wanted[i];
        rows[i] = (pf_cuda_row_draw){ .kind = kind_of(w->kind), .first_entry = n_entries };
        if (w->kind == PF_DRAW_NONE) continue;
        const pf_sampling *s = w->sampling;
        assert(s->temperature > 0.0f && w->n_ids >= 0 && w->n_ids <= PF_CUDA_MAX_ENTRIES && w->token < d->n_vocab);
        rows[i].position = w->position;
        rows[i].token = w->token;
        rows[i].n_entries = w->n_ids;
        rows[i].top_k = s->top_k;
        rows[i].temperature = s->temperature;
        rows[i].top_p = s->top_p;
        rows[i].min_p = s->min_p;
        rows[i].keep = w->keep;
        rows[i].next = w->next;
        rows[i].seed_low = (uint32_t)s->seed;
        rows[i].seed_high = (uint32_t)(s->seed >> 32);
        for (int32_t j = 0; j < w->n_ids; j++) {
            const float q = w->probabilities[j];
            entries[n_entries++] = (pf_cuda_entry){ w->ids[j], q > 0.0f ? q : 0.0f };
        }
    }
    return rows_bytes(d) + (size_t)n_entries * sizeof *entries;
}

cudaError_t pf_cuda_draws_queue(const pf_cuda_draws *d, const pf_draw *wanted, int32_t n, const float *logits,
                                cudaStream_t stream)
{
    assert(n >= 0 && n <= d->n_rows);
    const size_t n_bytes = fill(d, wanted, n);
    const pf_cuda_drawing drawing = { .logits = logits,
                                      .p = d->p,
                                      .draws = (const pf_cuda_row_draw *)(const void *)d->device_input,
                                      .entries = entries_in(d, d->device_input),
                                      .tokens = d->device_results,
                                      .kept = d->device_results + d->n_rows,
                                      .n_vocab = d->n_vocab };
    cudaError_t status = cudaMemcpyAsync(d->device_input, d->input, n_bytes, cudaMemcpyHostToDevice, stream);
    if (status == cudaSuccess) status = pf_cuda_launch_draw(&drawing, n, stream);
    if (status != cudaSuccess) return status;
    return cudaMemcpyAsync(d->out, d->device_results, 2 * (size_t)d->n_rows * sizeof *d->out, cudaMemcpyDeviceToHost,
                           stream);
}

void pf_cuda_draws_read(const pf_cuda_draws *d, int32_t n, pf_drawn *out)
{
    for (int32_t i = 0; i < n; i++) out[i] = (pf_drawn){ .token = d->out[i], .is_kept = d->out[d->n_rows + i] != 0 };
}
