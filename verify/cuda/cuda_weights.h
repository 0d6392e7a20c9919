/*
 * The weights of a model on the device: matrices in BF16, vectors in F32, in one block of memory.
 *
 * Q, K and V are one matrix, gate and up another: each block of a layer begins with one product. The 1 of
 * PF_NORM_RMS_PLUS_ONE is in the weights. A tied embedding is there once.
 */
#ifndef PF_VERIFY_CUDA_WEIGHTS_H
#define PF_VERIFY_CUDA_WEIGHTS_H

#include "model/files/checkpoint.h"
#include "verify/cuda/cuda_backend.h"
#include "verify/cuda/cuda_launch.h"

/* What a plan does not have is NULL. */
typedef struct {
    pf_cuda_norm attention_norm, attention_post, mlp_norm, mlp_post, q_norm, k_norm;
    const uint16_t *qkv;     /* [(n_heads + 2 * n_kv_heads) * head_dim, hidden] */
    const uint16_t *o;       /* [hidden, n_heads * head_dim] */
    const uint16_t *gate_up; /* [2 * intermediate, hidden], without a gate half of it */
    const uint16_t *down;    /* [hidden, intermediate] */
    const float *qkv_bias, *o_bias, *gate_up_bias, *down_bias;
} pf_cuda_layer;

typedef struct {
    unsigned char *block; /* owned, on the device */
    size_t n_bytes;
    const uint16_t *embedding, *head; /* [vocab, hidden] */
    pf_cuda_norm final_norm;
    pf_cuda_layer *layers; /* [n_layers], owned, on the host */
} pf_cuda_weights;

/* Reads and uploads all. PF_NOMEM, PF_CANCELLED, and as pf_checkpoint_matrix. The caller ends it with pf_cuda_weights_destroy,
 * also after a failure. */
PF_MUST_USE pf_status pf_cuda_weights_load(const pf_checkpoint *checkpoint, const pf_cuda_options *options,
                                           cudaStream_t stream, pf_cuda_weights *out, pf_error *error);
void pf_cuda_weights_destroy(pf_cuda_weights *weights);

#endif
