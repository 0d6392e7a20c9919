/*
 * Queues a pass: from the rows of a stage to logits and the best tokens, as operations of fixed shape in one stream.
 *
 *      rows -> embed -> layers { norm, QKV, heads, attention, O, norm, gate and up, activation, down } -> norm, head, choose -> ids
 *
 * Shapes do not depend on the rows that a pass has, so that a CUDA graph serves: one for each number of segments of the longest
 * row, rounded up to a power of two, with and without the LM head. All are made at creation. The copy of the rows stands before the
 * graph, because its source changes (cuda_stage.h).
 */
#ifndef PF_VERIFY_CUDA_PASS_H
#define PF_VERIFY_CUDA_PASS_H

#include "verify/cuda/cuda_products.h"
#include "verify/cuda/cuda_stage.h"
#include "verify/cuda/cuda_weights.h"

enum { PF_CUDA_GRAPHS = 2 * 6 }; /* 1, 2, 4, ... PF_CUDA_MAX_SEGMENTS segments */

typedef struct {
    const pf_config *config;
    const pf_cuda_weights *weights;
    cudaStream_t stream;
    int32_t n_rows, max_tokens, n_pages, table_pages;

    /* On the device. */
    void *input;                 /* as pf_cuda_stage.memory */
    pf_cuda_rows rows;           /* in it */
    int32_t *page_tables;        /* [max_sequences, table_pages] */
    uint16_t *pages;             /* [n_layers, n_pages, ...] (pf_cuda_cache) */
    float *x, *sum;              /* [n_rows, hidden] */
    float *qkv;                  /* [n_rows, q + 2 * kv], and of gate and up: [n_rows, 2 * intermediate] */
    uint16_t *normed;            /* [n_rows, hidden] */
    uint16_t *inner;             /* [n_rows, the wider of q and intermediate] what O and DOWN multiply */
    float *parts;                /* of attention */
    float *logits;               /* [n_rows, vocab] */
    float *angles[PF_MAX_ROPES]; /* [2: cosines, sines][max_tokens, rotary_dim / 2] */
    float *chunk_values;
    int32_t *chunks; /* [2][n_rows, PF_CUDA_CHOICE_CHUNKS] */
    int32_t *chosen; /* [2: best, invalid][n_rows] */

    /* Pinned. */
    int32_t *out;      /* as chosen, of the last pass that had logits */
    float *out_logits; /* as logits */

    int32_t segment_tokens; /* set: at least so many */
    pf_cuda_products *products;
    pf_cuda_shape by_qkv, by_o, by_gate_up, by_down, by_head;
    cudaGraphExec_t graphs[PF_CUDA_GRAPHS]; /* NULL: queued one by one */
} pf_cuda_pass;

/* Fills in a zeroed pass. config and weights are borrowed. The caller ends it with pf_cuda_pass_destroy, also after a failure. */
PF_MUST_USE pf_status pf_cuda_pass_create(pf_cuda_pass *pass, int32_t max_sequences, bool with_graphs, pf_error *error);
void pf_cuda_pass_destroy(pf_cuda_pass *pass);

/* Queues the copy of the stage's rows, of which the longest sees n_tokens, its event, and their pass. Waits for nothing. */
cudaError_t pf_cuda_pass_queue(const pf_cuda_pass *pass, const pf_cuda_stage *stage, int32_t n_tokens, bool with_head);

/* The cache of a layer. */
pf_cuda_cache pf_cuda_pass_cache(const pf_cuda_pass *pass, int32_t layer);
int64_t pf_cuda_pass_layer_elements(const pf_cuda_pass *pass); /* of `pages` */

#endif
