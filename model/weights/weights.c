/* Lists the matrices of a layer, divides them among threads, and looks up rows of the embedding. */
#include "model/weights/weights.h"

#include <string.h>

const pf_matrix_recipe pf_layer_recipes[PF_N_LAYER_MATRICES] = {
    [PF_MATRIX_QKV] = { offsetof(pf_layer, qkv), 3, { PF_TENSOR_Q, PF_TENSOR_K, PF_TENSOR_V } },
    [PF_MATRIX_O] = { offsetof(pf_layer, o), 1, { PF_TENSOR_O } },
    [PF_MATRIX_GATE] = { offsetof(pf_layer, gate), 1, { PF_TENSOR_GATE } },
    [PF_MATRIX_UP] = { offsetof(pf_layer, up), 1, { PF_TENSOR_UP } },
    [PF_MATRIX_DOWN] = { offsetof(pf_layer, down), 1, { PF_TENSOR_DOWN } },
    [PF_MATRIX_ROUTER] = { offsetof(pf_layer, router), 2, { PF_TENSOR_ROUTER, PF_TENSOR_SHARED_ROUTER } },
    [PF_MATRIX_SHARED_GATE] = { offsetof(pf_layer, shared_gate), 1, { PF_TENSOR_SHARED_GATE } },
    [PF_MATRIX_SHARED_UP] = { offsetof(pf_layer, shared_up), 1, { PF_TENSOR_SHARED_UP } },
    [PF_MATRIX_SHARED_DOWN] = { offsetof(pf_layer, shared_down), 1, { PF_TENSOR_SHARED_DOWN } },
};
const pf_matrix_recipe pf_expert_recipes[PF_EXPERT_MATRICES] = {
    { 0, 1, { PF_TENSOR_EXPERT_GATE } },
    { 0, 1, { PF_TENSOR_EXPERT_UP } },
    { 0, 1, { PF_TENSOR_EXPERT_DOWN } },
};
const pf_matrix_recipe pf_project_in_recipe = { 0, 1, { PF_TENSOR_PROJECT_IN } };
const pf_matrix_recipe pf_project_out_recipe = { 0, 1, { PF_TENSOR_PROJECT_OUT } };
const pf_matrix_recipe pf_embedding_recipe = { 0, 1, { PF_TENSOR_EMBEDDING } };
const pf_matrix_recipe pf_head_recipe = { 0, 1, { PF_TENSOR_HEAD } };

const pf_norm_recipe pf_layer_norms[PF_N_LAYER_NORMS] = {
    { offsetof(pf_layer, attention_norm), PF_TENSOR_ATTENTION_NORM },
    { offsetof(pf_layer, q_norm), PF_TENSOR_Q_NORM },
    { offsetof(pf_layer, k_norm), PF_TENSOR_K_NORM },
    { offsetof(pf_layer, attention_post), PF_TENSOR_ATTENTION_POST },
    { offsetof(pf_layer, mlp_norm), PF_TENSOR_MLP_NORM },
    { offsetof(pf_layer, mlp_post), PF_TENSOR_MLP_POST },
};

bool pf_model_heads_divide(const pf_model *model, int32_t n_members)
{
    const int32_t n_heads = model->config.n_kv_heads;
    if (pf_model_gemm(model)->by_shares) return false;
    return n_heads % n_members == 0 && n_heads / n_members * model->config.head_dim % PF_GEMM_PANEL == 0;
}

int32_t pf_model_qkv_share(const pf_model *model, pf_member member, pf_panels out[3])
{
    const int32_t n_q = model->q_dim / PF_GEMM_PANEL, n_kv = model->kv_dim / PF_GEMM_PANEL;
    const int32_t sizes[3] = { n_q, n_kv, n_kv };
    if (!pf_model_heads_divide(model, member.n_threads)) {
        pf_team_share(member, (model->q_dim + 2 * model->kv_dim + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL, &out[0].begin,
                      &out[0].end);
        return 1;
    }
    for (int32_t i = 0, first = 0; i < 3; first += sizes[i++]) {
        pf_team_share(member, sizes[i], &out[i].begin, &out[i].end);
        out[i].begin += first;
        out[i].end += first;
    }
    return 3;
}

void pf_model_embed(const pf_model *model, const int32_t *tokens, int32_t n_rows, float *x, size_t stride)
{
    const size_t hidden = (size_t)model->config.embedding_size;
    for (int32_t i = 0; i < n_rows; i++, x += stride) {
        if (model->embedding == NULL) {
            pf_gemm_unpack_row(pf_model_embedding_panels(model), tokens[i], x);
        } else if (model->row_type == PF_TYPE_F32) {
            memcpy(x, (const float *)model->embedding + (size_t)tokens[i] * hidden, hidden * sizeof *x);
        } else {
            const uint16_t *row = (const uint16_t *)model->embedding + (size_t)tokens[i] * hidden;
            for (size_t d = 0; d < hidden; d++) x[d] = pf_bf16_to_f32(row[d]);
        }
    }
}
