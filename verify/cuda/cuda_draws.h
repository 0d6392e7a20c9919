/*
 * Draws tokens from rows of logits on the device, so that no row is copied to the host. Internal to verify/cuda/.
 *
 *      pf_draw [n] -> pinned rows and entries -> kernel on logits -> pinned tokens -> pf_drawn [n]
 */
#ifndef PF_VERIFY_CUDA_DRAWS_H
#define PF_VERIFY_CUDA_DRAWS_H

#include "base/status.h"
#include "model/backend/row_draw.h"
#include "verify/cuda/cuda_launch.h"

typedef struct {
    int32_t n_rows, n_vocab;
    /* A block of rows [n_rows], then of entries [n_rows * PF_CUDA_MAX_ENTRIES]: pinned, and on the device. */
    unsigned char *input, *device_input;
    float *p;                /* on the device, [n_rows, n_vocab] */
    int32_t *out;            /* pinned, [2: tokens, kept][n_rows] */
    int32_t *device_results; /* as out */
} pf_cuda_draws;

/* Fills in a zeroed struct. The caller ends it with pf_cuda_draws_destroy, also after a failure. */
PF_MUST_USE pf_status pf_cuda_draws_create(pf_cuda_draws *draws, int32_t n_rows, int32_t n_vocab, pf_error *error);
void pf_cuda_draws_destroy(pf_cuda_draws *draws);

/* Queues the draws [n] of logits [n, n_vocab] in the stream. Ids must lie within the vocabulary. */
cudaError_t pf_cuda_draws_queue(const pf_cuda_draws *draws, const pf_draw *wanted, int32_t n, const float *logits,
                                cudaStream_t stream);

/* What came back, once the stream was waited for. */
void pf_cuda_draws_read(const pf_cuda_draws *draws, int32_t n, pf_drawn *out);

#endif
