/*
 * What is inside a pf_model: the weights as the forward pass reads them. Seen by model/ alone.
 *
 *   one arena:   embedding | head_rows | final norm | layer 0: norms, QKV, O, gate, up, down | layer 1 ... | head |
 *                head_error | coarse_head                             behind a matrix its bias, where it has one
 *
 * Q, K and V are one matrix, their rows one below the other, so a layer's first product is one. Gate and up are two of
 * equal shape: a member that multiplies the same panels of both can combine them without waiting for anybody.
 * An embedding that is the head too lies in memory once, as the head's panels: its rows are gathered from there, a line of
 * the cache for every two values. Where that is a hundredth of a step, since weights lie in the cache, it has its rows
 * besides (choices.h). A screened head has panels of four bits and rows, which then are the embedding's too where the two
 * are one.
 */
#ifndef PF_MODEL_WEIGHTS_H
#define PF_MODEL_WEIGHTS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/team.h"
#include "model/weights/model.h"

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
    pf_topology machine;               /* that it was loaded for */
    pf_dtype dtype;                    /* resolved */
    bool is_default;                   /* nobody asked for it */
    bool not_representable_in_12_bits; /* BF16 although BF16_12 was chosen or asked for: the weights do not fit it */
    pf_format format;                  /* of panels */
    pf_act act;                        /* of what they are multiplied with */
    pf_head head_kind;                 /* resolved: never AUTO */
    bool has_rows;                     /* of the embedding, apart from the head's panels */
    pf_type row_type;                  /* of embedding rows and, by default, of the KV cache: F32 or BF16 */
    int32_t q_dim;                     /* n_heads * head_dim */
    int32_t kv_dim;                    /* n_kv_heads * head_dim */
    int64_t n_parameters;              /* elements of the tensors in the file that are used */
    /* Types in its files, as pf_checkpoint has them. */
    bool has_matrices[PF_N_TYPES];
    pf_arena arena;
    struct pf_onednn *onednn; /* or NULL: what the copies of the matrices share */

    void *embedding;   /* [vocab, hidden] of row_type; NULL: not has_rows, see head */
    pf_layer *layers;  /* [n_layers] */
    float *final_norm; /* [hidden] */
    pf_linear head;    /* [vocab, hidden], of pf_model_head_format */
    void *head_rows;   /* [vocab, hidden] of BF16 where it is screened: its own, or `embedding` */

    pf_linear coarse_head; /* [vocab, hidden] in INT8 where it is bounded, and */
    float *head_error;     /* [vocab] how far off that may be (bounded_head.h) */
};

enum { PF_MAX_PARTS = 3 };

/* Of the head's panels, and of what they are multiplied with: those of all other matrices, where it is not screened. */
static inline pf_format pf_model_head_format(const pf_model *model)
{
    return model->head_kind == PF_HEAD_SCREENED ? PF_FORMAT_INT4_CHANNEL : model->format;
}
static inline pf_act pf_model_head_act(const pf_model *model)
{
    return model->head_kind == PF_HEAD_SCREENED ? PF_ACT_INT8 : model->act;
}

/* The row of the registry that multiplies a matrix. */
static inline const pf_kernel *pf_model_product(const pf_model *model, const pf_linear *linear)
{
    if (linear == &model->coarse_head) return model->kernels.chosen_gemm[PF_FORMAT_INT8][PF_ACT_INT8];
    return linear == &model->head ? model->kernels.chosen_gemm[pf_model_head_format(model)][pf_model_head_act(model)]
                                  : model->kernels.chosen_gemm[model->format][model->act];
}

/* The product of the head, and of all other matrices. */
static inline const pf_gemm *pf_model_head_gemm(const pf_model *model)
{
    return &model->kernels.gemm[pf_model_head_format(model)][pf_model_head_act(model)];
}
static inline const pf_gemm *pf_model_coarse_gemm(const pf_model *model) /* of a bounded head */
{
    return &model->kernels.gemm[PF_FORMAT_INT8][PF_ACT_INT8];
}
static inline const pf_gemm *pf_model_gemm(const pf_model *model)
{
    return &model->kernels.gemm[model->format][model->act];
}

/* The head that a step reads: of a bounded one the coarse one. */
static inline const pf_linear *pf_model_step_head(const pf_model *model)
{
    return model->head_kind == PF_HEAD_BOUNDED ? &model->coarse_head : &model->head;
}

/* Which matrix of a layer is made of which tensors, in order of rows. */
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

/* A member's share of a bare read of some matrices, of every layer: bits by pf_matrix. Returns the sum. */
uint64_t pf_model_read_share(const pf_model *model, pf_member member, uint32_t matrices, pf_read_fn *read);

/* Whether the key heads part evenly over n members, their queries, keys and values at whole panels. */
bool pf_model_heads_part(const pf_model *model, int32_t n_members);

/* Panels [begin, end) of a matrix. */
typedef struct {
    int32_t begin, end;
} pf_panels;

/* A member's panels of Q, K and V: those of its heads, in three pieces, where the heads part evenly, else one piece of
 * all. Returns the number of pieces. */
int32_t pf_model_qkv_share(const pf_model *model, pf_member member, pf_panels out[3]);

/* Rows of the embedding as f32: x [n_rows, hidden], rows `stride` elements apart. Ids must be in range. */
void pf_model_embed(const pf_model *model, const int32_t *tokens, int32_t n_rows, float *x, size_t stride);

#endif
