/* Rows of ChatGLM 2 and 3, and of GLM as transformers has it: half of each head is rotated, in pairs of neighbours. */
#include "model/config/architecture_rows.h"

#define LAYER           "model.layers.%d."
#define CHATGLM         "transformer.encoder.layers.%d."
#define GLM_PLAN        PF_LLAMA_PLAN, .rope_interleaved = true
#define FUSED_MLP(name) [PF_TENSOR_GATE] = { name, PF_LAYOUT_GATE_UP }, [PF_TENSOR_UP] = { name, PF_LAYOUT_GATE_UP }

/* theta grows by rope_ratio in the versions with a long context. */
static pf_status read_chatglm(pf_reader *r, pf_config *c)
{
    pf_plan *plan = &c->plan;
    double ratio = 1.0;
    bool has_groups = false, has_biases = false, has_final_norm = true;
    PF_TRY(pf_key_double(r, "rope_ratio", 1e-6, 1e9, &ratio));
    r->theta = 1e4 * ratio;
    PF_TRY(pf_key_bool(r, "multi_query_attention", &has_groups));
    if (!has_groups) c->n_kv_heads = c->n_heads;
    PF_TRY(pf_key_bool(r, "add_bias_linear", &has_biases));
    for (int role = 0; role < PF_N_TENSOR_ROLES && has_biases; role++)
        if ((PF_QKVO | PF_GATED_MLP) & (1u << role)) plan->has_bias[role] = true;
    PF_TRY(pf_key_bool(r, "post_layer_norm", &has_final_norm));
    plan->final_norm = plan->has[PF_TENSOR_FINAL_NORM] = has_final_norm;
    return PF_OK;
}

static bool has_groups(const json_t *root)
{
    return json_is_true(json_object_get(root, "multi_query_attention"));
}

static const pf_fixed_key CHATGLM_FIXED[] = {
    { "rmsnorm", { "true" } },
    { "apply_residual_connection_post_layernorm", { "false" } },
    { "quantization_bit", { "0" } },
    { "pre_seq_len", { "0" } },
    { "prefix_projection", { "false" } },
    { "interleaved_qkv", { "false" } },
    { NULL, { NULL } },
};
/* In which precision or by which kernel the same is computed. */
static const char *const CHATGLM_IGNORED[] = {
    "apply_query_key_layer_scaling",
    "attention_softmax_in_fp32",
    "bias_dropout_fusion",
    "fp32_residual_connection",
    "original_rope",
    NULL,
};

#define CHATGLM_ROW(layout)                                                                                           \
    .classes = { "ChatGLMModel", "ChatGLMForConditionalGeneration" }, .model_types = { "chatglm" },                   \
    .keys = { [PF_KEY_VOCAB] = { "padded_vocab_size" }, [PF_KEY_INTERMEDIATE] = { "ffn_hidden_size" },                \
              [PF_KEY_LAYERS] = { "num_layers" },       [PF_KEY_KV_HEADS] = { "multi_query_group_num" },              \
              [PF_KEY_HEAD_DIM] = { "kv_channels" },    [PF_KEY_POSITIONS] = { "seq_length" },                        \
              [PF_KEY_EPS] = { "layernorm_epsilon" } },                                                               \
    .defaults = { [PF_KEY_POSITIONS] = 2048, [PF_KEY_HEAD_DIM] = 128, [PF_KEY_KV_HEADS] = 1 }, .eps = 1e-5,           \
    .rope_theta = 1e4, .rotary_factor = 0.5, .biases = { { "add_qkv_bias", false, PF_QKV } }, .fixed = CHATGLM_FIXED, \
    .ignored = CHATGLM_IGNORED, .read = read_chatglm, .plan = { GLM_PLAN },                                           \
    .tensors = { [PF_TENSOR_EMBEDDING] = { "transformer.embedding.word_embeddings" },                                 \
                 [PF_TENSOR_FINAL_NORM] = { "transformer.encoder.final_layernorm" },                                  \
                 [PF_TENSOR_HEAD] = { "transformer.output_layer" },                                                   \
                 PF_LLAMA_NORMS(CHATGLM),                                                                             \
                 PF_FUSED_QKV(CHATGLM "self_attention.query_key_value", layout),                                      \
                 [PF_TENSOR_O] = { CHATGLM "self_attention.dense" },                                                  \
                 FUSED_MLP(CHATGLM "mlp.dense_h_to_4h"),                                                              \
                 [PF_TENSOR_DOWN] = { CHATGLM "mlp.dense_4h_to_h" } }

#define GLM_NUMBERS                                                                                                \
    .defaults = { [PF_KEY_POSITIONS] = 131072, [PF_KEY_KV_HEADS] = 2, [PF_KEY_HEAD_DIM] = 128 }, .eps = 1.5625e-7, \
    .rope_theta = 1e4, .rotary_factor = 0.5, .biases = { { "attention_bias", true, PF_QKV } }

static const pf_architecture ROWS[] = {
    { .matches = has_groups, CHATGLM_ROW(PF_LAYOUT_QKV) },
    { CHATGLM_ROW(PF_LAYOUT_QKV_GROUPS) },
    {
        .classes = { "GlmForCausalLM" },
        .model_types = { "glm" },
        GLM_NUMBERS,
        .plan = { GLM_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_NORMS(LAYER), PF_LLAMA_ATTENTION(LAYER),
                     FUSED_MLP(LAYER "mlp.gate_up_proj"), [PF_TENSOR_DOWN] = { LAYER "mlp.down_proj" } },
    },
    {
        .classes = { "Glm4ForCausalLM" },
        .model_types = { "glm4" },
        GLM_NUMBERS,
        .plan = { GLM_PLAN, .post_norm = true },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_NORMS(LAYER),
                     PF_LLAMA_ATTENTION(LAYER), [PF_TENSOR_ATTENTION_POST] = { LAYER "post_self_attn_layernorm" },
                     [PF_TENSOR_MLP_POST] = { LAYER "post_mlp_layernorm" },
                     FUSED_MLP(LAYER "mlp.gate_up_proj"), [PF_TENSOR_DOWN] = { LAYER "mlp.down_proj" } },
    },
};

const pf_architecture_list pf_glm_architectures = PF_LIST(ROWS);
