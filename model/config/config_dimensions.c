/* Reads the dimensions of a model and the constants of its plan. */
#include <math.h>
#include <string.h>

#include "model/config/config_parts.h"

/* ---- dimensions -------------------------------------------------------------------------------------------------------- */

/* A default counts where the key is absent; null stands for the usual value. */
static bool is_null(const pf_reader *r, pf_config_key key)
{
    return json_is_null(json_object_get(r->doc->root, pf_key_usual_name(r->row, key)));
}

static pf_status read_kv_heads(pf_reader *r, pf_config *c)
{
    const char *name;
    PF_TRY(pf_key_name(r, PF_KEY_KV_HEADS, &name));
    c->n_kv_heads = c->n_heads;
    if (name == NULL && (r->row->defaults[PF_KEY_KV_HEADS] == 0 || is_null(r, PF_KEY_KV_HEADS))) return PF_OK;
    PF_TRY(pf_key_read(r, PF_KEY_KV_HEADS, c->n_heads, &c->n_kv_heads));
    if (c->n_heads % c->n_kv_heads == 0) return PF_OK;
    return pf_fail(r->error, PF_FORMAT, "%s: %s is %d, expected a divisor of %s, %d", r->doc->name,
                   name ? name : pf_key_usual_name(r->row, PF_KEY_KV_HEADS), c->n_kv_heads,
                   pf_key_usual_name(r->row, PF_KEY_HEADS), c->n_heads);
}

static pf_status read_head_dim(pf_reader *r, pf_config *c)
{
    const char *name, *hidden = pf_key_usual_name(r->row, PF_KEY_HIDDEN);
    PF_TRY(pf_key_name(r, PF_KEY_HEAD_DIM, &name));
    if (name != NULL || (r->row->defaults[PF_KEY_HEAD_DIM] != 0 && !is_null(r, PF_KEY_HEAD_DIM))) {
        PF_TRY(pf_key_read(r, PF_KEY_HEAD_DIM, PF_MAX_HEAD_DIM, &c->head_dim));
    } else {
        if (c->hidden_size % c->n_heads != 0)
            return pf_fail(r->error, PF_FORMAT,
                           "%s: %s is %d, expected a multiple of %s, %d, where head_dim is not given", r->doc->name,
                           hidden, c->hidden_size, pf_key_usual_name(r->row, PF_KEY_HEADS), c->n_heads);
        c->head_dim = c->hidden_size / c->n_heads;
    }
    if (c->head_dim % 2 == 0 && c->head_dim <= PF_MAX_HEAD_DIM) return PF_OK;
    return pf_fail(r->error, PF_FORMAT, "%s: %s is %d, expected an even number of at most %d", r->doc->name,
                   pf_key_usual_name(r->row, PF_KEY_HEAD_DIM), c->head_dim, PF_MAX_HEAD_DIM);
}

static pf_status read_intermediate(pf_reader *r, pf_config *c)
{
    const char *name;
    PF_TRY(pf_key_name(r, PF_KEY_INTERMEDIATE, &name));
    const int64_t by_factor = (int64_t)c->hidden_size * r->row->intermediate_factor;
    if (name != NULL || by_factor == 0 || by_factor > PF_MAX_INTERMEDIATE)
        return pf_key_read(r, PF_KEY_INTERMEDIATE, PF_MAX_INTERMEDIATE, &c->intermediate_size);
    c->intermediate_size = (int32_t)by_factor;
    return PF_OK;
}

static pf_status read_positions(pf_reader *r, pf_config *c)
{
    const char *name;
    PF_TRY(pf_key_name(r, PF_KEY_POSITIONS, &name));
    r->positions = r->row->defaults[PF_KEY_POSITIONS];
    if (name != NULL) PF_TRY(pf_config_read_positions(r->doc, name, &r->positions, r->error));
    c->max_position = r->positions < PF_MAX_POSITIONS ? (int32_t)r->positions : PF_MAX_POSITIONS;
    return PF_OK;
}

pf_status pf_config_read_dimensions(pf_reader *r, pf_config *c)
{
    const char *eps_name;
    double eps = r->row->eps;
    PF_TRY(pf_key_read(r, PF_KEY_VOCAB, PF_MAX_VOCAB, &c->vocab_size));
    PF_TRY(pf_key_read(r, PF_KEY_HIDDEN, PF_MAX_HIDDEN, &c->hidden_size));
    c->embedding_size = c->hidden_size;
    PF_TRY(read_intermediate(r, c));
    PF_TRY(pf_key_read(r, PF_KEY_LAYERS, PF_MAX_LAYERS, &c->n_layers));
    PF_TRY(pf_key_read(r, PF_KEY_HEADS, PF_MAX_HEADS, &c->n_heads));
    PF_TRY(read_kv_heads(r, c));
    PF_TRY(read_head_dim(r, c));
    PF_TRY(read_positions(r, c));
    PF_TRY(pf_key_name(r, PF_KEY_EPS, &eps_name));
    if (eps_name) PF_TRY(pf_key_double(r, eps_name, 0.0, 1.0, &eps));
    c->norm_eps = (float)eps;
    c->tied_embeddings = r->row->tied_embeddings;
    return pf_key_bool(r, "tie_word_embeddings", &c->tied_embeddings);
}

/* ---- activations ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    pf_activation activation;
} ACTIVATIONS[] = {
    { "silu", PF_ACTIVATION_SILU },
    { "swish", PF_ACTIVATION_SILU },
    { "gelu", PF_ACTIVATION_GELU },
    { "gelu_python", PF_ACTIVATION_GELU },
    { "gelu_new", PF_ACTIVATION_GELU_TANH },
    { "gelu_fast", PF_ACTIVATION_GELU_TANH },
    { "gelu_pytorch_tanh", PF_ACTIVATION_GELU_TANH },
    { "gelu_python_tanh", PF_ACTIVATION_GELU_TANH },
    { "gelu_accurate", PF_ACTIVATION_GELU_TANH },
    { "quick_gelu", PF_ACTIVATION_QUICK_GELU },
    { "relu", PF_ACTIVATION_RELU },
    { "relu2", PF_ACTIVATION_RELU2 },
};

static pf_status read_activation(pf_reader *r, pf_config *c)
{
    const char *name, *word = NULL;
    PF_TRY(pf_key_name(r, PF_KEY_ACTIVATION, &name));
    if (name == NULL) return PF_OK;
    PF_TRY(pf_key_string(r, name, &word));
    for (size_t i = 0; i < sizeof ACTIVATIONS / sizeof *ACTIVATIONS; i++) {
        if (strcmp(word, ACTIVATIONS[i].word) != 0) continue;
        c->plan.activation = ACTIVATIONS[i].activation;
        if (r->row->gelu_is_tanh && c->plan.activation == PF_ACTIVATION_GELU)
            c->plan.activation = PF_ACTIVATION_GELU_TANH;
        return PF_OK;
    }
    return pf_fail(r->error, PF_UNSUPPORTED,
                   "%s: %s is \"%.40s\", which is not known (known: silu, gelu, gelu_new, gelu_fast, "
                   "gelu_pytorch_tanh, quick_gelu, relu, relu2)",
                   r->doc->name, name, word);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------------- */

static pf_status read_biases(pf_reader *r, pf_plan *plan)
{
    for (const pf_bias_rule *rule = r->row->biases; rule < r->row->biases + PF_MAX_BIASES && rule->roles; rule++) {
        bool exist = rule->key == NULL || rule->by_default;
        if (rule->key) PF_TRY(pf_key_bool(r, rule->key, &exist));
        for (int role = 0; role < PF_N_TENSOR_ROLES; role++)
            if (rule->roles & (1u << role)) plan->has_bias[role] = exist;
    }
    return PF_OK;
}

static void set_neutral(float *scale)
{
    if (*scale == 0.0f) *scale = 1.0f;
}

pf_status pf_config_read_plan(pf_reader *r, pf_config *c)
{
    pf_plan *plan = &c->plan;
    *plan = r->row->plan;
    set_neutral(&plan->embedding_scale);
    set_neutral(&plan->residual_scale);
    set_neutral(&plan->logit_scale);
    set_neutral(&plan->alibi_scale);
    plan->attention_scale = (float)(1.0 / sqrt((double)c->head_dim));
    for (int role = 0; role < PF_N_TENSOR_ROLES; role++) plan->has[role] = r->row->tensors[role].name != NULL;
    PF_TRY(read_activation(r, c));
    return read_biases(r, plan);
}
