/*
 * Holds in pinned memory what the host sends to the device for a pass: rows, changed page tables, moves of the cache.
 *
 *      host      fill stage 0, queue | fill stage 1, queue | wait until stage 0 is sent, fill it, queue | ...
 *      device                 [copies of 0][    pass 0    ][copies of 1][    pass 1    ] ...
 *
 * Copies run when the device comes to them. A stage is written again only after its own copies have run, so two stages let the host
 * prepare a pass while the device works on the one before.
 */
#ifndef PF_VERIFY_CUDA_STAGE_H
#define PF_VERIFY_CUDA_STAGE_H

#include "base/status.h"
#include "verify/cuda/cuda_launch.h"

enum { PF_CUDA_STAGES = 2 };

/* The arrays of pf_cuda_rows in one block of memory, on the host or on the device. */
typedef struct {
    int32_t *counts, *tokens, *tables, *bases, *firsts, *depths, *parents, *logit_row, *best_of;
} pf_cuda_input;

typedef struct {
    void *memory;     /* [pf_cuda_input_bytes] */
    pf_cuda_input in; /* in it */
    int32_t *tables;  /* rows of page tables, as those of the device */
    int32_t *moves;   /* pairs of slots */
    cudaEvent_t sent; /* the copies of the last pass that used the stage have run */
} pf_cuda_stage;

size_t pf_cuda_input_bytes(int32_t n_rows);
pf_cuda_input pf_cuda_input_in(void *memory, int32_t n_rows);

/* Fills in a zeroed stage: a pass of n_rows, n_table_entries of page tables, n_moves pairs. The caller ends it with
 * pf_cuda_stage_destroy, also after a failure. */
PF_MUST_USE pf_status pf_cuda_stage_create(pf_cuda_stage *stage, int32_t n_rows, size_t n_table_entries, size_t n_moves,
                                           pf_error *error);
void pf_cuda_stage_destroy(pf_cuda_stage *stage);

#endif
