#include "verify/cuda/cuda_stage.h"

#include "verify/cuda/cuda_device.h"

enum { N_ARRAYS = 8, COUNTS = 16 };

size_t pf_cuda_input_bytes(int32_t n_rows)
{
    return (COUNTS + (size_t)N_ARRAYS * (size_t)n_rows) * sizeof(int32_t);
}

/* The arrays lie behind each other: counts, then each of n_rows. */
pf_cuda_input pf_cuda_input_in(void *memory, int32_t n_rows)
{
    int32_t *a[N_ARRAYS];
    for (int32_t i = 0; i < N_ARRAYS; i++) a[i] = (int32_t *)memory + COUNTS + i * n_rows;
    return (pf_cuda_input){ memory, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7] };
}

pf_status pf_cuda_stage_create(pf_cuda_stage *s, int32_t n_rows, size_t n_table_entries, size_t n_moves,
                               pf_error *error)
{
    PF_TRY(pf_cuda_allocate_pinned(&s->memory, pf_cuda_input_bytes(n_rows), error));
    s->in = pf_cuda_input_in(s->memory, n_rows);
    PF_TRY(pf_cuda_allocate_pinned((void **)&s->tables, n_table_entries * sizeof *s->tables, error));
    PF_TRY(pf_cuda_allocate_pinned((void **)&s->moves, n_moves * 2 * sizeof *s->moves, error));
    PF_CUDA_TRY(cudaEventCreateWithFlags(&s->sent, cudaEventDisableTiming), "the making of an event", error);
    return PF_OK;
}

void pf_cuda_stage_destroy(pf_cuda_stage *s)
{
    (void)cudaFreeHost(s->memory);
    (void)cudaFreeHost(s->tables);
    (void)cudaFreeHost(s->moves);
    if (s->sent) (void)cudaEventDestroy(s->sent);
}
