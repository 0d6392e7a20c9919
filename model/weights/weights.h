/*
 * Defines pf_model: the weights as the forward pass reads them. Internal to model/.
 *
 *   one arena:   embedding | final norm | layer 0: norms, QKV, O, gate, up, down | layer 1 ... | the LM head (head.h)
 *                each matrix is followed by its bias, if any
 *
 * Q, K and V are stacked into one matrix, so that a layer begins with one product. Gate and up are two matrices of equal shape: a
 * thread that multiplies the same panels of both combines them without a barrier.
 * A tied embedding is in memory once, as the panels of the LM head: its rows are gathered from there, one cache line for every
 * two values. Where weights fit in the cache that costs a noticeable part of a step, and the rows are stored as well
 * (choices.h). A screened head has four-bit panels and BF16 rows, which a tied embedding shares.
 */
#ifndef PF_MODEL_WEIGHTS_H
#define PF_MODEL_WEIGHTS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/team.h"
#include "model/head/head.h"
#include "model/linear.h"
#include "model/weights/model.h"

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
    pf_topology machine;               /* the machine that it was loaded for */
    pf_dtype dtype;                    /* resolved */
    bool is_default;                   /* dtype was AUTO */
    bool not_representable_in_12_bits; /* BF16 instead of BF16_12: the weights do not fit */
    pf_format format;                  /* of the panels */
    pf_act act;                        /* of the activations */
    bool has_rows;                     /* rows of the embedding are stored apart from the head's panels */
    pf_type row_type;                  /* of embedding rows and, by default, of the KV cache: F32 or BF16 */
    int32_t q_dim;                     /* n_heads * head_dim */
    int32_t kv_dim;                    /* n_kv_heads * head_dim */
    int64_t n_parameters;              /* elements of the tensors that are used */
    /* Types of the matrices in the files, as in pf_checkpoint. */
    bool has_matrices[PF_N_TYPES];
    pf_arena arena;
    struct pf_library_products *products; /* of another library (library_products.h), or NULL: our own */

    void *embedding;   /* [vocab, hidden] of row_type; NULL unless has_rows */
    pf_layer *layers;  /* [n_layers] */
    float *final_norm; /* [hidden] */
    pf_lm_head head;   /* [vocab, hidden] */
};

enum { PF_MAX_PARTS = 3 };

/* The product of all matrices but the LM head. */
static inline const pf_gemm *pf_model_gemm(const pf_model *model)
{
    return &model->kernels.gemm[model->format][model->act];
}

/* The tensors that a matrix of a layer is stacked from, in order of rows. */
typedef struct {
    size_t offset; /* of the pf_linear in pf_layer */
    int32_t n_parts;
    pf_tensor_role parts[PF_MAX_PARTS];
} pf_matrix_recipe;

typedef enum {
    PF_MATRIX_QKV,
    PF_MATRIX_O,
    PF_MATRIX_GATE,
    PF_MATRIX_UP,
    PF_MATRIX_DOWN,
    PF_N_LAYER_MATRICES,
    PF_MATRIX_HEAD = PF_N_LAYER_MATRICES,
} pf_matrix;

extern const pf_matrix_recipe pf_layer_recipes[PF_N_LAYER_MATRICES];
extern const pf_matrix_recipe pf_head_recipe;

/* The matrix of pf_layer_recipes[i]. */
static inline pf_linear *pf_layer_matrix(pf_layer *layer, int i)
{
    return (pf_linear *)((char *)layer + pf_layer_recipes[i].offset);
}

/* Reads one thread's share of some matrices of every layer, selected by bits of pf_matrix. Returns the sum. */
uint64_t pf_model_read_share(const pf_model *model, pf_member member, uint32_t matrices, pf_read_fn *read);

/* Whether n threads can each take the same number of key heads, with queries, keys and values at panel boundaries. */
bool pf_model_heads_divide(const pf_model *model, int32_t n_members);

/* One thread's panels of Q, K and V: three ranges for its heads where the heads divide evenly, else one range of all panels.
 * Returns the number of ranges. */
int32_t pf_model_qkv_share(const pf_model *model, pf_member member, pf_panels out[3]);

/* Looks up rows of the embedding as F32: x [n_rows, hidden], rows `stride` elements apart. Ids must be in range. */
void pf_model_embed(const pf_model *model, const int32_t *tokens, int32_t n_rows, float *x, size_t stride);

#endif
