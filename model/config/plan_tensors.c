/* Says which tensors a model has, where its files have them, and in which shape; and ALiBi's slopes. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/config/config_parts.h"
#include "model/config/gguf_config.h"

const pf_tensor_pattern *pf_config_pattern(const pf_config *config, pf_tensor_role role)
{
    assert((unsigned)role < PF_N_TENSOR_ROLES);
    return config->gguf ? pf_gguf_pattern(config, role) : &pf_architecture_get(config->architecture)->tensors[role];
}

void pf_config_tensor_name(const pf_config *config, pf_tensor_id id, const char *part, char out[PF_MAX_TENSOR_NAME])
{
    const pf_tensor_pattern *pattern = pf_config_pattern(config, id.role);
    size_t n = 0;
    out[0] = '\0';
    for (const char *at = pattern->name; at != NULL && *at && n < PF_MAX_TENSOR_NAME - 1; at++) {
        if (at[0] == '%') {
            n += (size_t)snprintf(out + n, PF_MAX_TENSOR_NAME - n, "%d", at[1] == 'd' ? id.layer : id.expert);
            at++;
        } else {
            out[n++] = *at;
            out[n] = '\0';
        }
    }
    const bool is_weight = strcmp(part, "weight") == 0;
    if (n >= PF_MAX_TENSOR_NAME - 1 || (pattern->bare && is_weight)) return;
    snprintf(out + n, PF_MAX_TENSOR_NAME - n, "%s%s", pattern->bare ? "_" : ".", part);
}

void pf_config_shape(const pf_config *c, pf_tensor_role role, int32_t *rows, int32_t *columns)
{
    const pf_plan *plan = &c->plan;
    const int32_t q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;
    const bool each = plan->head_norm != PF_HEAD_NORM_SHARED;
    const struct {
        int32_t rows, columns;
    } shapes[PF_N_TENSOR_ROLES] = {
        [PF_TENSOR_EMBEDDING] = { c->vocab_size, c->embedding_size },
        [PF_TENSOR_POSITIONS] = { c->n_positions, c->hidden_size },
        [PF_TENSOR_EMBEDDING_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_PROJECT_IN] = { c->hidden_size, c->embedding_size },
        [PF_TENSOR_PROJECT_OUT] = { c->embedding_size, c->hidden_size },
        [PF_TENSOR_FINAL_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_HEAD] = { c->vocab_size, c->embedding_size },
        [PF_TENSOR_ATTENTION_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_Q] = { q_dim, c->hidden_size },
        [PF_TENSOR_K] = { kv_dim, c->hidden_size },
        [PF_TENSOR_V] = { kv_dim, c->hidden_size },
        [PF_TENSOR_Q_NORM] = { each ? q_dim : c->head_dim, 0 },
        [PF_TENSOR_K_NORM] = { each ? kv_dim : c->head_dim, 0 },
        [PF_TENSOR_SINKS] = { c->n_heads, 0 },
        [PF_TENSOR_O] = { c->hidden_size, q_dim },
        [PF_TENSOR_ATTENTION_POST] = { c->hidden_size, 0 },
        [PF_TENSOR_MLP_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_GATE] = { c->intermediate_size, c->hidden_size },
        [PF_TENSOR_UP] = { c->intermediate_size, c->hidden_size },
        [PF_TENSOR_DOWN] = { c->hidden_size, c->intermediate_size },
        [PF_TENSOR_ROUTER] = { plan->n_experts, c->hidden_size },
        [PF_TENSOR_EXPERT_GATE] = { plan->expert_size, c->hidden_size },
        [PF_TENSOR_EXPERT_UP] = { plan->expert_size, c->hidden_size },
        [PF_TENSOR_EXPERT_DOWN] = { c->hidden_size, plan->expert_size },
        [PF_TENSOR_SHARED_ROUTER] = { 1, c->hidden_size },
        [PF_TENSOR_SHARED_GATE] = { plan->shared_size, c->hidden_size },
        [PF_TENSOR_SHARED_UP] = { plan->shared_size, c->hidden_size },
        [PF_TENSOR_SHARED_DOWN] = { c->hidden_size, plan->shared_size },
        [PF_TENSOR_MLP_POST] = { c->hidden_size, 0 },
    };
    *rows = shapes[role].rows;
    *columns = shapes[role].columns;
}

/* Rows of Q, or of K or V, cut into n_blocks that follow each other by turns. `place`: which of the three; `size`: of its own. */
static pf_row_map fused_qkv(const pf_config *c, pf_tensor_role role, int32_t n_blocks, bool value_first)
{
    const int32_t q = c->n_heads * c->head_dim / n_blocks, kv = c->n_kv_heads * c->head_dim / n_blocks;
    const bool is_q = role == PF_TENSOR_Q, is_second = (role == PF_TENSOR_V) == value_first;
    return (pf_row_map){ .first = is_q        ? 0
                                  : is_second ? q
                                              : q + kv,
                         .block_rows = is_q ? q : kv,
                         .stride = q + 2 * kv,
                         .n_blocks = n_blocks,
                         .file_rows = n_blocks * (q + 2 * kv) };
}

pf_row_map pf_config_rows(const pf_config *c, pf_tensor_role role)
{
    enum { QUARTERS = 4 };
    int32_t rows, columns;
    pf_config_shape(c, role, &rows, &columns);
    const bool is_gate = role == PF_TENSOR_GATE || role == PF_TENSOR_EXPERT_GATE || role == PF_TENSOR_SHARED_GATE;
    switch (pf_config_pattern(c, role)->layout) {
    case PF_LAYOUT_QKV: return fused_qkv(c, role, 1, false);
    case PF_LAYOUT_QKV_GROUPS: return fused_qkv(c, role, c->n_kv_heads, false);
    case PF_LAYOUT_QVK_QUARTERS: return fused_qkv(c, role, QUARTERS, true);
    case PF_LAYOUT_GATE_UP: return (pf_row_map){ is_gate ? 0 : rows, rows, 2 * rows, 1, 2 * rows };
    case PF_LAYOUT_UP_GATE: return (pf_row_map){ is_gate ? rows : 0, rows, 2 * rows, 1, 2 * rows };
    case PF_LAYOUT_GATE_UP_PAIRS: return (pf_row_map){ is_gate ? 0 : 1, 1, 2, rows, 2 * rows };
    case PF_LAYOUT_PLAIN: break;
    }
    return (pf_row_map){ 0, rows, rows, 1, rows };
}

bool pf_config_has_bias(const pf_config *config, pf_tensor_role role)
{
    return config->plan.has_bias[role];
}

bool pf_config_has(const pf_config *config, pf_tensor_role role, int32_t layer)
{
    if (!config->plan.has[role] || (role == PF_TENSOR_HEAD && config->tied_embeddings)) return false;
    const bool is_dense = role >= PF_TENSOR_GATE && role <= PF_TENSOR_DOWN;
    const bool is_of_experts = role >= PF_TENSOR_ROUTER && role <= PF_TENSOR_SHARED_DOWN;
    if (!is_dense && !is_of_experts) return true;
    return pf_config_layer(config, layer)->experts == is_of_experts;
}

bool pf_config_is_multiplied(const pf_config *config, pf_tensor_role role)
{
    int32_t rows, columns;
    pf_config_shape(config, role, &rows, &columns);
    switch (role) {
    case PF_TENSOR_EMBEDDING: return config->tied_embeddings;
    case PF_TENSOR_POSITIONS:
    case PF_TENSOR_ROUTER: /* kept in F32: they decide which experts run */
    case PF_TENSOR_SHARED_ROUTER: return false;
    default: return columns != 0;
    }
}

/* How many tensors of the files hold a role of a layer. */
static int32_t n_tensors(const pf_config *config, pf_tensor_role role)
{
    if (pf_role_is_of_expert(role)) return config->plan.n_experts;
    if (!pf_config_pattern(config, role)->per_head) return 1;
    return role == PF_TENSOR_Q_NORM ? config->n_heads : config->n_kv_heads;
}

static pf_status visit_role(const pf_config *config, pf_tensor_id id, pf_config_tensor_fn *visit, void *user,
                            pf_error *error)
{
    if (id.role == PF_TENSOR_HEAD && config->tied_embeddings && pf_config_has_bias(config, id.role))
        return visit(user, id, "bias", error);
    if (!pf_config_has(config, id.role, id.layer)) return PF_OK;
    const int32_t n = n_tensors(config, id.role);
    for (id.expert = 0; id.expert < n; id.expert++) {
        PF_TRY(visit(user, id, "weight", error));
        if (pf_config_has_bias(config, id.role)) PF_TRY(visit(user, id, "bias", error));
    }
    return PF_OK;
}

pf_status pf_config_visit_tensors(const pf_config *config, pf_config_tensor_fn *visit, void *user, pf_error *error)
{
    for (int32_t layer = 0; layer < config->n_layers; layer++)
        for (int role = layer == 0 ? 0 : PF_FIRST_LAYER_ROLE; role < PF_N_TENSOR_ROLES; role++)
            PF_TRY(visit_role(config, (pf_tensor_id){ (pf_tensor_role)role, layer, 0 }, visit, user, error));
    return PF_OK;
}

/* Slopes of n heads, a power of two: 2^(-8 i / n), i from 1. */
static float slope_of(int32_t i, int32_t n)
{
    return (float)exp2(-8.0 * (double)i / (double)n);
}

void pf_config_alibi_slopes(const pf_config *config, float *slopes)
{
    const int32_t n = config->n_heads;
    int32_t below = 1;
    while (below <= n / 2) below *= 2;
    for (int32_t h = 0; h < n; h++) {
        if (below == n || (config->plan.alibi == PF_ALIBI_PAPER && h < below))
            slopes[h] = slope_of(h + 1, below);
        else if (config->plan.alibi == PF_ALIBI_PAPER)
            slopes[h] = slope_of(2 * (h - below) + 1, 2 * below);
        else /* even ones of the next power of two, which count from 1, then odd ones */
            slopes[h] = slope_of(h < below ? 2 * (h + 1) : 2 * (h - below) + 1, 2 * below);
        slopes[h] *= config->plan.alibi_scale;
    }
}
