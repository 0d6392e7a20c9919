/*
 * What is inside a pf_model: the weights as the forward pass reads them. Seen by model/ alone.
 *
 *   one arena:   embedding | final norm | layer 0: norms, QKV, O, gate, up, down, biases | layer 1 ... | head
 *
 * Q, K and V are one matrix, their rows one below the other, so a layer's first product is one. Gate and up are two of
 * equal shape: a member that multiplies the same panels of both can combine them without waiting for anybody.
 * A tied head is the embedding packed a second time: rows are looked up, panels are multiplied.
 */
#ifndef PF_MODEL_WEIGHTS_H
#define PF_MODEL_WEIGHTS_H

#include "base/arena.h"
#include "model/model.h"

/* y = W x + bias */
typedef struct {
    pf_gemm_weights weights;
    float *bias; /* [weights.n], or NULL */
} pf_linear;

typedef struct {
    float *attention_norm; /* [hidden] */
    pf_linear qkv;         /* [q_dim + 2 * kv_dim, hidden] */
    pf_linear o;           /* [hidden, q_dim] */
    float *mlp_norm;       /* [hidden] */
    pf_linear gate, up;    /* [intermediate, hidden] */
    pf_linear down;        /* [hidden, intermediate] */
} pf_layer;

struct pf_model {
    pf_config config;
    pf_kernels kernels;
    pf_dtype dtype;       /* F32, F16 or BF16 */
    pf_type weight_type;  /* of panels and embedding rows: F32 or BF16 */
    int32_t q_dim;        /* n_heads * head_dim */
    int32_t kv_dim;       /* n_kv_heads * head_dim */
    int64_t n_parameters; /* elements of the tensors in the file that are used */
    pf_arena arena;

    void *embedding;   /* [vocab, hidden] of weight_type */
    pf_layer *layers;  /* [n_layers] */
    float *final_norm; /* [hidden] */
    pf_linear head;    /* [vocab, hidden] */
};

/* Rows of the embedding as f32: x [n_rows, hidden], rows `stride` elements apart. Ids must be in range. */
void pf_model_embed(const pf_model *model, const int32_t *tokens, int32_t n_rows, float *x, size_t stride);

#endif
