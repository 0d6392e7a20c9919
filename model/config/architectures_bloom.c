/* Rows of BLOOM, Falcon and MPT: ALiBi, or fused queries, keys and values by groups of heads. */
#include <math.h>
#include <string.h>

#include "model/config/architecture_rows.h"
#include "model/config/unknown_keys.h"

#define H "transformer.h.%d."

#define BLOOM_KEYS                                                                                   \
    [PF_KEY_HIDDEN] = { "n_embed" }, [PF_KEY_LAYERS] = { "n_layer" }, [PF_KEY_HEADS] = { "n_head" }, \
    [PF_KEY_EPS] = { "layer_norm_epsilon" }
#define BLOOM_ENDS                                                                                              \
    [PF_TENSOR_EMBEDDING] = { "transformer.word_embeddings" }, [PF_TENSOR_FINAL_NORM] = { "transformer.ln_f" }, \
    [PF_TENSOR_HEAD] = { "lm_head" }
#define BLOOM_PRODUCTS                                                                            \
    PF_FUSED_QKV(H "self_attention.query_key_value", PF_LAYOUT_QKV_GROUPS),                       \
        [PF_TENSOR_O] = { H "self_attention.dense" }, [PF_TENSOR_UP] = { H "mlp.dense_h_to_4h" }, \
        [PF_TENSOR_DOWN] = { H "mlp.dense_4h_to_h" }

static const pf_fixed_key FIXED[] = {
    { "apply_residual_connection_post_layernorm", { "false" } },
    { NULL, { NULL } },
};
static const char *const BLOOM_IGNORED[] = {
    "slow_but_exact",      "offset_alibi",  "masked_softmax_fusion", "attention_softmax_in_fp32",
    "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv",     NULL,
};

/* ---- Falcon ------------------------------------------------------------------------------------------------------------ */

/* Falcon 40B was published as "RefinedWeb" before the key existed. */
static bool is_new_falcon(const json_t *root)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));
    return json_is_true(json_object_get(root, "new_decoder_architecture")) || (type && strcmp(type, "RefinedWeb") == 0);
}

/* Each block of a layer has a norm of its own before it, though both read the same. */
static bool has_two_norms(const json_t *root)
{
    const json_t *n = json_object_get(root, "num_ln_in_parallel_attn");
    return is_new_falcon(root) && (!json_is_number(n) || json_number_value(n) == 2.0);
}

static pf_status read_falcon(pf_reader *r, pf_config *c)
{
    pf_plan *plan = &c->plan;
    bool is_new = is_new_falcon(r->doc->root), has_one_key = true, is_parallel = true, has_alibi = false;
    int32_t n_norms = 2;
    PF_TRY(pf_key_bool(r, "new_decoder_architecture", &is_new));
    PF_TRY(pf_key_bool(r, "multi_query", &has_one_key));
    PF_TRY(pf_key_bool(r, "parallel_attn", &is_parallel));
    PF_TRY(pf_key_bool(r, "alibi", &has_alibi));
    PF_TRY(pf_key_int(r, "num_ln_in_parallel_attn", 1, 2, &n_norms));
    if (is_new && !is_parallel)
        return pf_fail(r->error, PF_UNSUPPORTED,
                       "%s: parallel_attn is false, only true is known where new_decoder_architecture is",
                       r->doc->name);
    if (!is_new) c->n_kv_heads = has_one_key ? 1 : c->n_heads;
    plan->parallel = is_parallel;
    plan->one_norm = is_parallel && !has_two_norms(r->doc->root);
    plan->has[PF_TENSOR_MLP_NORM] = !plan->one_norm;
    if (!has_alibi) return PF_OK;
    plan->positions = PF_POSITIONS_ALIBI;
    plan->alibi_scale = (float)(1.0 / sqrt((double)c->head_dim)); /* added before the products are scaled */
    return PF_OK;
}

#define FALCON                                                                                                         \
    .classes = { "FalconForCausalLM", "RWForCausalLM" }, .model_types = { "falcon", "RefinedWebModel", "RefinedWeb" }, \
    .keys = { BLOOM_KEYS, [PF_KEY_KV_HEADS] = { "num_kv_heads", "n_head_kv" },                                         \
              [PF_KEY_INTERMEDIATE] = { "ffn_hidden_size" }, [PF_KEY_ACTIVATION] = { "activation" } },                 \
    .defaults = { [PF_KEY_POSITIONS] = 2048 }, .intermediate_factor = 4, .eps = 1e-5, .rope_theta = 1e4,               \
    .tied_embeddings = true, .biases = { PF_ALWAYS(PF_NORMS), { "bias", false, PF_QKVO | PF_PLAIN_MLP } },             \
    .fixed = FIXED, .ignored = (const char *const[]){ "ff_factor", NULL }, .read = read_falcon,                        \
    .plan = { .norm = PF_NORM_LAYER,                                                                                   \
              .pre_norm = true,                                                                                        \
              .final_norm = true,                                                                                      \
              .activation = PF_ACTIVATION_GELU,                                                                        \
              .positions = PF_POSITIONS_ROTARY }

/* ---- MPT --------------------------------------------------------------------------------------------------------------- */

static pf_status refuse(const pf_json *doc, pf_error *error, const char *key, const char *known)
{
    char found[PF_SHOWN_BYTES];
    (void)pf_config_show(json_object_get(doc->root, key), found);
    return pf_fail(error, PF_UNSUPPORTED, "%s: %s is %s, only %s is known", doc->name, key, found, known);
}

/* Checks the keys of attn_config that have one implemented value; the others are read, or say how to compute. */
static pf_status check_mpt_attention(const pf_json *doc, pf_error *error)
{
    static const char *const other[] = {
        "attn_type", "attn_impl",      "attn_pdrop", "clip_qkv", "softmax_scale", "kv_n_heads", "attn_uses_sequence_id",
        "alibi",     "alibi_bias_max", NULL
    };
    const char *key;
    json_t *value;
    bool has_alibi = true;
    double bias_max = 8.0;
    PF_TRY(pf_json_get_bool(doc, doc->root, "alibi", false, &has_alibi, error));
    PF_TRY(pf_json_get_double(doc, doc->root, "alibi_bias_max", false, 1.0, 1e6, &bias_max, error));
    if (!has_alibi) return refuse(doc, error, "alibi", "true");
    if (bias_max != 8.0) return refuse(doc, error, "alibi_bias_max", "8");
    json_object_foreach(doc->root, key, value)
    {
        const bool is_read = pf_config_lists(other, key) || pf_config_is_inert(key);
        if (!is_read && !json_is_null(value) && !pf_config_may_ignore(doc->root, key, value))
            return refuse(doc, error, key, "false");
    }
    return PF_OK;
}

static pf_status read_mpt(pf_reader *r, pf_config *c)
{
    const pf_json doc = pf_json_within(r->doc, pf_key_find(r, "attn_config"), "attn_config");
    pf_error *error = r->error;
    const char *type = "multihead_attention";
    double clip = 0.0, scale = (double)c->plan.attention_scale;
    if (doc.root != NULL && !json_is_object(doc.root))
        return pf_fail(error, PF_FORMAT, "%s: attn_config must be an object", r->doc->name);
    PF_TRY(check_mpt_attention(&doc, error));
    PF_TRY(pf_json_get_string(&doc, doc.root, "attn_type", false, &type, error));
    PF_TRY(pf_json_get_double(&doc, doc.root, "clip_qkv", false, 0.0, 1e9, &clip, error));
    PF_TRY(pf_json_get_double(&doc, doc.root, "softmax_scale", false, 1e-9, 1e9, &scale, error));
    c->plan.qkv_clip = (float)clip;
    c->plan.attention_scale = (float)scale;
    if (strcmp(type, "multihead_attention") == 0) return PF_OK;
    if (strcmp(type, "multiquery_attention") != 0 && strcmp(type, "grouped_query_attention") != 0)
        return refuse(&doc, error, "attn_type", "multihead_attention, multiquery_attention or grouped_query_attention");
    c->n_kv_heads = 1;
    PF_TRY(pf_json_get_int32(&doc, doc.root, "kv_n_heads", false, 1, c->n_heads, &c->n_kv_heads, error));
    if (c->n_heads % c->n_kv_heads == 0) return PF_OK;
    return pf_fail(error, PF_FORMAT, "%s: kv_n_heads is %d, expected a divisor of n_heads, %d", doc.name, c->n_kv_heads,
                   c->n_heads);
}

static const pf_fixed_key MPT_FIXED[] = {
    { "no_bias", { "true" } },
    { "norm_type", { "\"low_precision_layernorm\"", "\"layernorm\"" } },
    { NULL, { NULL } },
};
/* expansion_ratio: the class of transformers does not read it, and the shape of a tensor says the same. */
static const char *const MPT_IGNORED[] = { "expansion_ratio", "learned_pos_emb", "embedding_fraction", "verbose",
                                           NULL };

static const pf_architecture ROWS[] = {
    {
        .classes = { "BloomForCausalLM" },
        .model_types = { "bloom" },
        .keys = { BLOOM_KEYS, [PF_KEY_POSITIONS] = { "seq_length" } },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .intermediate_factor = 4,
        .eps = 1e-5,
        .tied_embeddings = true,
        .biases = { PF_ALWAYS(PF_NORMS | PF_ROLE(EMBEDDING_NORM) | PF_QKVO | PF_PLAIN_MLP) },
        .fixed = FIXED,
        .ignored = BLOOM_IGNORED,
        .plan = { .norm = PF_NORM_LAYER,
                  .pre_norm = true,
                  .final_norm = true,
                  .activation = PF_ACTIVATION_GELU_TANH,
                  .positions = PF_POSITIONS_ALIBI },
        .tensors = { BLOOM_ENDS, BLOOM_PRODUCTS,
                     PF_LLAMA_NORMS(H), [PF_TENSOR_EMBEDDING_NORM] = { "transformer.word_embeddings_layernorm" } },
    },
    {
        .matches = has_two_norms,
        FALCON,
        .tensors = { BLOOM_ENDS, BLOOM_PRODUCTS, [PF_TENSOR_ATTENTION_NORM] = { H "ln_attn" },
                     [PF_TENSOR_MLP_NORM] = { H "ln_mlp" } },
    },
    { FALCON, .tensors = { BLOOM_ENDS, BLOOM_PRODUCTS, PF_LLAMA_NORMS(H) } },
    {
        .classes = { "MptForCausalLM", "MPTForCausalLM" },
        .model_types = { "mpt" },
        .keys = { [PF_KEY_HIDDEN] = { "d_model" },
                  [PF_KEY_LAYERS] = { "n_layers" },
                  [PF_KEY_HEADS] = { "n_heads" },
                  [PF_KEY_POSITIONS] = { "max_seq_len" },
                  [PF_KEY_EPS] = { "layer_norm_epsilon" } },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .intermediate_factor = 4,
        .eps = 1e-5,
        .tied_embeddings = true,
        .fixed = MPT_FIXED,
        .ignored = MPT_IGNORED,
        .read = read_mpt,
        .plan = { .norm = PF_NORM_LAYER,
                  .pre_norm = true,
                  .final_norm = true,
                  .activation = PF_ACTIVATION_GELU,
                  .positions = PF_POSITIONS_ALIBI,
                  .alibi = PF_ALIBI_STRIDE },
        .tensors = { [PF_TENSOR_EMBEDDING] = { "transformer.wte" },
                     [PF_TENSOR_FINAL_NORM] = { "transformer.norm_f" },
                     [PF_TENSOR_HEAD] = { "lm_head" },
                     [PF_TENSOR_ATTENTION_NORM] = { "transformer.blocks.%d.norm_1" },
                     PF_FUSED_QKV("transformer.blocks.%d.attn.Wqkv", PF_LAYOUT_QKV),
                     [PF_TENSOR_O] = { "transformer.blocks.%d.attn.out_proj" },
                     [PF_TENSOR_MLP_NORM] = { "transformer.blocks.%d.norm_2" },
                     [PF_TENSOR_UP] = { "transformer.blocks.%d.ffn.up_proj" },
                     [PF_TENSOR_DOWN] = { "transformer.blocks.%d.ffn.down_proj" } },
    },
};

const pf_architecture_list pf_bloom_architectures = PF_LIST(ROWS);
