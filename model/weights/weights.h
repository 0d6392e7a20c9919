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

/* The weights of a norm, or of one without either: NULL. The 1 of PF_NORM_RMS_PLUS_ONE is in the weights. */
typedef struct {
    float *weight, *bias;
} pf_norm_weights;

/* What a plan does not have is zero: a matrix without panels, a NULL vector. */
typedef struct {
    pf_norm_weights attention_norm; /* [hidden] */
    pf_linear qkv;                  /* [q_dim + 2 * kv_dim, hidden] */
    pf_norm_weights q_norm, k_norm; /* [head_dim], or [q_dim] and [kv_dim] (pf_head_norm) */
    float *sinks;                   /* [n_heads] */
    pf_linear o;                    /* [hidden, q_dim] */
    pf_norm_weights attention_post; /* [hidden] */
    pf_norm_weights mlp_norm;       /* [hidden] */
    pf_linear gate, up;             /* [intermediate, hidden] */
    pf_linear down;                 /* [hidden, intermediate] */
    pf_linear router;               /* [n_experts, hidden], and a row more for the shared expert's gate; in F32 */
    pf_linear *experts;             /* [n_experts, 3]: gate and up [expert_size, hidden], down [hidden, expert_size] */
    pf_linear shared_gate, shared_up; /* [shared_size, hidden] */
    pf_linear shared_down;            /* [hidden, shared_size] */
    pf_norm_weights mlp_post;         /* [hidden] */
} pf_layer;

struct pf_model {
    pf_config config;
    pf_kernels kernels;
    pf_topology machine;               /* the machine that it was loaded for */
    pf_dtype dtype;                    /* resolved */
    bool is_default;                   /* dtype was AUTO */
    char not_exact[160];               /* why AUTO does not hold the groups of the file; "" */
    bool not_representable_in_12_bits; /* BF16 instead of BF16_12: the weights do not fit */
    pf_format format;                  /* of the panels */
    pf_act act;                        /* of the activations */
    const char *act_reason;            /* why: a static string */
    bool has_rows;                     /* rows of the embedding are stored apart from panels */
    bool looks_up_groups;              /* looked_up has them */
    pf_type row_type;                  /* of embedding rows: F32 or BF16 */
    int32_t q_dim;                     /* n_heads * head_dim */
    int32_t kv_dim;                    /* n_kv_heads * head_dim */
    int64_t n_parameters;              /* elements of the tensors that are used */
    /* Types of the matrices in the files, as in pf_checkpoint. */
    bool has_matrices[PF_N_TYPES];
    pf_arena arena;
    struct pf_library_products *products; /* of another library (library_products.h), or NULL: our own */

    void *embedding;     /* [vocab, embedding_size] of row_type; NULL unless has_rows */
    pf_linear looked_up; /* [vocab, embedding_size] in groups: an untied embedding of EXACT; else without panels */
    void *positions;     /* [n_positions, hidden] of row_type, or NULL */
    pf_norm_weights embedding_norm; /* [hidden] */
    pf_linear project_in;           /* [hidden, embedding_size] */
    pf_layer *layers;               /* [n_layers] */
    pf_linear *experts;             /* [n_layers, n_experts, 3] those of the layers, one at least */
    pf_norm_weights final_norm;     /* [hidden] */
    pf_linear project_out;          /* [embedding_size, hidden] */
    pf_lm_head head;                /* [vocab, embedding_size] */
};

enum { PF_MAX_PARTS = 3 };

/* The product of all matrices but the LM head. */
static inline const pf_gemm *pf_model_gemm(const pf_model *model)
{
    return &model->kernels.gemm[model->format][model->act];
}

/* The tensors that a matrix is stacked from, in order of rows. One that the plan does not have adds no rows. */
typedef struct {
    size_t offset; /* of the pf_linear in pf_layer */
    int32_t n_parts;
    pf_tensor_role parts[PF_MAX_PARTS];
} pf_matrix_recipe;

/* A vector of a layer. */
typedef struct {
    size_t offset; /* of the pf_norm_weights in pf_layer */
    pf_tensor_role role;
} pf_norm_recipe;

enum { PF_N_LAYER_NORMS = 6, PF_EXPERT_MATRICES = 3 };

extern const pf_norm_recipe pf_layer_norms[PF_N_LAYER_NORMS];

static inline pf_norm_weights *pf_layer_norm(pf_layer *layer, int i)
{
    return (pf_norm_weights *)((char *)layer + pf_layer_norms[i].offset);
}

typedef enum {
    PF_MATRIX_QKV,
    PF_MATRIX_O,
    PF_MATRIX_GATE,
    PF_MATRIX_UP,
    PF_MATRIX_DOWN,
    PF_MATRIX_ROUTER,
    PF_MATRIX_SHARED_GATE,
    PF_MATRIX_SHARED_UP,
    PF_MATRIX_SHARED_DOWN,
    PF_N_LAYER_MATRICES,
    PF_MATRIX_HEAD = PF_N_LAYER_MATRICES,
} pf_matrix;

extern const pf_matrix_recipe pf_layer_recipes[PF_N_LAYER_MATRICES];
extern const pf_matrix_recipe pf_expert_recipes[PF_EXPERT_MATRICES]; /* without offsets */
extern const pf_matrix_recipe pf_project_in_recipe, pf_project_out_recipe, pf_embedding_recipe, pf_head_recipe;

/* The matrices of a layer: those of pf_layer_recipes, then those of the experts, one expert after the other. */
static inline int32_t pf_layer_n_matrices(const pf_model *model)
{
    return PF_N_LAYER_MATRICES + PF_EXPERT_MATRICES * model->config.plan.n_experts;
}
static inline pf_linear *pf_layer_matrix(pf_layer *layer, int32_t i)
{
    if (i >= PF_N_LAYER_MATRICES) return &layer->experts[i - PF_N_LAYER_MATRICES];
    return (pf_linear *)((char *)layer + pf_layer_recipes[i].offset);
}
static inline const pf_matrix_recipe *pf_layer_recipe(int32_t i)
{
    return i < PF_N_LAYER_MATRICES ? &pf_layer_recipes[i]
                                   : &pf_expert_recipes[(i - PF_N_LAYER_MATRICES) % PF_EXPERT_MATRICES];
}
static inline int32_t pf_layer_expert(int32_t i)
{
    return i < PF_N_LAYER_MATRICES ? 0 : (i - PF_N_LAYER_MATRICES) / PF_EXPERT_MATRICES;
}

/* Whether a part of a recipe adds rows in a layer. The head is there even where its tensor is the embedding. */
static inline bool pf_model_has_part(const pf_model *model, pf_tensor_role role, int32_t layer)
{
    return role == PF_TENSOR_HEAD || pf_config_has(&model->config, role, layer);
}

/* The format of a matrix of a layer. */
static inline pf_format pf_layer_format(const pf_model *model, int32_t i)
{
    return i == PF_MATRIX_ROUTER ? PF_FORMAT_F32 : model->format;
}

/* Reads one thread's share of some matrices of every layer, selected by bits of pf_matrix. Returns the sum. */
uint64_t pf_model_read_share(const pf_model *model, pf_member member, uint32_t matrices, pf_read_fn *read);

/* Whether n threads can each take the same number of key heads, with queries, keys and values at panel boundaries. */
bool pf_model_heads_divide(const pf_model *model, int32_t n_members);

/* One thread's panels of Q, K and V: three ranges for its heads where the heads divide evenly, else one range of all panels.
 * Returns the number of ranges. */
int32_t pf_model_qkv_share(const pf_model *model, pf_member member, pf_panels out[3]);

/* The matrix that rows of the embedding are gathered from, where they are not stored as rows. */
static inline const pf_gemm_weights *pf_model_embedding_panels(const pf_model *model)
{
    return model->looked_up.weights.n > 0 ? &model->looked_up.weights : &model->head.full.weights;
}

/* Looks up rows of the embedding as F32: x [n_rows, hidden], rows `stride` elements apart. Ids must be in range. */
void pf_model_embed(const pf_model *model, const int32_t *tokens, int32_t n_rows, float *x, size_t stride);

#endif
