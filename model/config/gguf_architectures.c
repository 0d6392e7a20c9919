/* The architectures of llama.cpp that are computed here. */
#include <math.h>

#include "model/config/gguf_config_parts.h"

/* Fields of config.json that say whether there are biases. */
#define ATTENTION_BIAS                         \
    {                                          \
        "attention_bias", "attn_q.bias", false \
    }
#define MLP_BIAS                           \
    {                                      \
        "mlp_bias", "ffn_gate.bias", false \
    }

/* ---- what a table cannot say ------------------------------------------------------------------------------------------- */

static json_int_t int_of(const pf_gguf_builder *b, const char *field)
{
    return pf_gguf_builder_int(b, field);
}

static pf_status set_bool(const pf_gguf_builder *b, const char *field, bool value)
{
    return pf_gguf_builder_set(b, b->root, field, json_boolean(value));
}

static pf_status set_number(const pf_gguf_builder *b, const char *field, double value)
{
    return pf_gguf_builder_set(b, b->root, field, json_real(value));
}

/* Experts without a size of their own share the feed-forward block's. */
static pf_status set_expert_size(const pf_gguf_builder *b)
{
    const json_int_t n_used = int_of(b, "num_experts_per_tok");
    if (json_object_get(b->root, "moe_intermediate_size") != NULL || n_used == 0) return PF_OK;
    return pf_gguf_builder_set(b, b->root, "moe_intermediate_size",
                               json_integer(int_of(b, "intermediate_size") / n_used));
}

static pf_status finish_qwen2_moe(const pf_gguf_builder *b)
{
    PF_TRY(set_expert_size(b));
    if (json_object_get(b->root, "shared_expert_intermediate_size") != NULL) return PF_OK;
    return pf_gguf_builder_set(b, b->root, "shared_expert_intermediate_size",
                               json_integer(int_of(b, "intermediate_size")));
}

/* The weights of the chosen experts are divided by their sum, unless a key says otherwise. */
static pf_status finish_qwen3_moe(const pf_gguf_builder *b)
{
    PF_TRY(set_expert_size(b));
    return json_object_get(b->root, "norm_topk_prob") != NULL ? PF_OK : set_bool(b, "norm_topk_prob", true);
}

/* Queries are scaled by the head size; in the largest model of a family by the hidden size a head. */
static pf_status set_query_scalar(const pf_gguf_builder *b, json_int_t n_layers_of_largest)
{
    const json_int_t n_heads = int_of(b, "num_attention_heads");
    const bool is_largest = int_of(b, "num_hidden_layers") == n_layers_of_largest && n_heads > 0;
    return set_number(b, "query_pre_attn_scalar",
                      (double)(is_largest ? int_of(b, "hidden_size") / n_heads : int_of(b, "head_dim")));
}

static pf_status finish_gemma2(const pf_gguf_builder *b)
{
    return set_query_scalar(b, 46);
}

static pf_status finish_gemma3(const pf_gguf_builder *b)
{
    return set_query_scalar(b, 62);
}

/* The class multiplies by 1 where it has no multiplier, llama.cpp by the usual scale. */
static pf_status finish_granite(const pf_gguf_builder *b)
{
    double scale = 0.0;
    PF_TRY(pf_gguf_builder_number(b, "attention.scale", &scale));
    if (scale == 0.0 && int_of(b, "head_dim") > 0) scale = 1.0 / sqrt((double)int_of(b, "head_dim"));
    return set_number(b, "attention_multiplier", scale);
}

/* Queries, keys and values of all Falcons have one layout here, so that each is read as one of the newer models. */
static pf_status set_falcon(const pf_gguf_builder *b, json_int_t n_norms)
{
    PF_TRY(set_bool(b, "new_decoder_architecture", true));
    return pf_gguf_builder_set(b, b->root, "num_ln_in_parallel_attn", json_integer(n_norms));
}

static pf_status finish_falcon(const pf_gguf_builder *b)
{
    return set_falcon(b, 1);
}

static pf_status finish_falcon_with_two_norms(const pf_gguf_builder *b)
{
    return set_falcon(b, 2);
}

static pf_status finish_mpt(const pf_gguf_builder *b)
{
    double clip = 0.0, bias_max = 8.0;
    const json_int_t n_kv_heads = int_of(b, "num_key_value_heads");
    PF_TRY(pf_gguf_builder_number(b, "attention.clamp_kqv", &clip));
    PF_TRY(pf_gguf_builder_number(b, "attention.max_alibi_bias", &bias_max));
    json_t *attention = json_pack("{s:b, s:f, s:s, s:I, s:f}", "alibi", bias_max > 0.0, "alibi_bias_max",
                                  bias_max > 0.0 ? bias_max : 8.0, "attn_type", "grouped_query_attention", "kv_n_heads",
                                  n_kv_heads, "clip_qkv", clip);
    if (attention == NULL) return pf_gguf_builder_no_memory(b);
    return pf_gguf_builder_set(b, b->root, "attn_config", attention);
}

static pf_status finish_starcoder(const pf_gguf_builder *b)
{
    return set_bool(b, "multi_query", int_of(b, "num_key_value_heads") == 1);
}

/* The model of 13B, with 40 layers, has ALiBi, that of 7B RoPE; nothing else in the file tells them apart. */
static pf_status finish_baichuan(const pf_gguf_builder *b)
{
    enum { LAYERS_OF_13B = 40 };
    if (int_of(b, "num_hidden_layers") != LAYERS_OF_13B) return PF_OK;
    json_t *n_positions = json_integer(int_of(b, "max_position_embeddings"));
    PF_TRY(pf_gguf_builder_set(b, b->root, "model_max_length", n_positions));
    return pf_gguf_builder_set(b, b->root, "max_position_embeddings", json_null());
}

/* The growth of queries is an entry of the RoPE dictionary. */
static pf_status finish_mistral3(const pf_gguf_builder *b)
{
    return pf_gguf_builder_copy(b, "attention.temperature_scale", PF_GGUF_FIELD_NUMBER, false,
                                json_object_get(b->root, "rope_parameters"), "llama_4_scaling_beta");
}

/* ---- the table --------------------------------------------------------------------------------------------------------- */

const pf_gguf_architecture pf_gguf_architectures[] = {
    { .architecture = "llama",
      .when = "ffn_gate_inp.weight",
      .name = "MixtralForCausalLM",
      .eps_field = "rms_norm_eps",
      .head_pairs = true,
      .has_experts = true },
    { .architecture = "llama",
      .name = "LlamaForCausalLM",
      .eps_field = "rms_norm_eps",
      .head_pairs = true,
      .presences = { ATTENTION_BIAS, MLP_BIAS } },
    { .architecture = "mistral3",
      .name = "Ministral3ForCausalLM",
      .eps_field = "rms_norm_eps",
      .head_pairs = true,
      .fields = { { .key = "attention.temperature_scale" } },
      .finish = finish_mistral3 },
    { .architecture = "smollm3",
      .name = "SmolLM3ForCausalLM",
      .eps_field = "rms_norm_eps",
      .head_pairs = true,
      .presences = { ATTENTION_BIAS, MLP_BIAS } },
    { .architecture = "granite",
      .name = "GraniteForCausalLM",
      .eps_field = "rms_norm_eps",
      .head_pairs = true,
      .fields = { { .key = "attention.scale" },
                  { "embedding_scale", "embedding_multiplier", PF_GGUF_FIELD_NUMBER },
                  { "residual_scale", "residual_multiplier", PF_GGUF_FIELD_NUMBER },
                  { "logit_scale", "logits_scaling", PF_GGUF_FIELD_NUMBER } },
      .presences = { ATTENTION_BIAS, MLP_BIAS },
      .finish = finish_granite },
    { .architecture = "baichuan",
      .name = "BaiChuanForCausalLM",
      .eps_field = "rms_norm_eps",
      .head_pairs = true,
      .finish = finish_baichuan },
    { .architecture = "internlm2",
      .name = "InternLM2ForCausalLM",
      .eps_field = "rms_norm_eps",
      .head_pairs = true,
      .presences = { { "bias", "attn_q.bias", false } } },
    { .architecture = "qwen", .name = "QWenLMHeadModel", .eps_field = "layer_norm_epsilon" },
    { .architecture = "qwen2", .name = "Qwen2ForCausalLM", .eps_field = "rms_norm_eps" },
    { .architecture = "qwen3",
      .name = "Qwen3ForCausalLM",
      .eps_field = "rms_norm_eps",
      .presences = { ATTENTION_BIAS } },
    { .architecture = "qwen2moe",
      .name = "Qwen2MoeForCausalLM",
      .eps_field = "rms_norm_eps",
      .has_experts = true,
      .fields = { { "expert_shared_feed_forward_length", "shared_expert_intermediate_size", PF_GGUF_FIELD_INT },
                  { "expert_weights_norm", "norm_topk_prob", PF_GGUF_FIELD_BOOL } },
      .presences = { { "qkv_bias", "attn_q.bias", false } },
      .finish = finish_qwen2_moe },
    { .architecture = "qwen3moe",
      .name = "Qwen3MoeForCausalLM",
      .eps_field = "rms_norm_eps",
      .has_experts = true,
      .fields = { { "expert_weights_norm", "norm_topk_prob", PF_GGUF_FIELD_BOOL } },
      .presences = { ATTENTION_BIAS },
      .finish = finish_qwen3_moe },
    { .architecture = "gpt-oss",
      .name = "GptOssForCausalLM",
      .eps_field = "rms_norm_eps",
      .has_experts = true,
      .has_windows = true,
      .keeps_ramp = true,
      .presences = { ATTENTION_BIAS },
      .names = { { PF_TENSOR_MLP_NORM, { .name = "blk.%d.post_attention_norm" } } } },
    { .architecture = "gemma", .name = "GemmaForCausalLM", .eps_field = "rms_norm_eps" },
    { .architecture = "gemma2",
      .name = "Gemma2ForCausalLM",
      .eps_field = "rms_norm_eps",
      .has_windows = true,
      .fields = { { "attn_logit_softcapping", "attn_logit_softcapping", PF_GGUF_FIELD_NUMBER },
                  { "final_logit_softcapping", "final_logit_softcapping", PF_GGUF_FIELD_NUMBER } },
      .finish = finish_gemma2 },
    { .architecture = "gemma3",
      .name = "Gemma3ForCausalLM",
      .eps_field = "rms_norm_eps",
      .has_windows = true,
      .has_two_ropes = true,
      .fields = { { "final_logit_softcapping", "final_logit_softcapping", PF_GGUF_FIELD_NUMBER } },
      .finish = finish_gemma3 },
    { .architecture = "phi2", .name = "PhiForCausalLM", .eps_field = "layer_norm_eps", .is_partial = true },
    { .architecture = "phi3",
      .name = "Phi3ForCausalLM",
      .eps_field = "rms_norm_eps",
      .is_partial = true,
      .has_windows = true },
    { .architecture = "gpt2", .name = "GPT2LMHeadModel", .eps_field = "layer_norm_epsilon" },
    { .architecture = "starcoder",
      .name = "GPTBigCodeForCausalLM",
      .eps_field = "layer_norm_epsilon",
      .finish = finish_starcoder },
    { .architecture = "starcoder2",
      .name = "Starcoder2ForCausalLM",
      .eps_field = "norm_epsilon",
      .presences = { { "use_bias", "attn_q.bias", false } } },
    { .architecture = "gptneox",
      .name = "GPTNeoXForCausalLM",
      .eps_field = "layer_norm_eps",
      .is_partial = true,
      .fields = { { "use_parallel_residual", "use_parallel_residual", PF_GGUF_FIELD_BOOL } },
      .presences = { ATTENTION_BIAS } },
    { .architecture = "bloom", .name = "BloomForCausalLM", .eps_field = "layer_norm_epsilon" },
    { .architecture = "falcon",
      .when = "attn_norm_2.weight",
      .name = "FalconForCausalLM",
      .eps_field = "layer_norm_epsilon",
      .finish = finish_falcon_with_two_norms,
      .names = { { PF_TENSOR_ATTENTION_NORM, { .name = "blk.%d.attn_norm_2" } },
                 { PF_TENSOR_MLP_NORM, { .name = "blk.%d.attn_norm" } } } },
    { .architecture = "falcon",
      .name = "FalconForCausalLM",
      .eps_field = "layer_norm_epsilon",
      .finish = finish_falcon },
    { .architecture = "mpt",
      .name = "MptForCausalLM",
      .eps_field = "layer_norm_epsilon",
      .fields = { { .key = "attention.clamp_kqv" }, { .key = "attention.max_alibi_bias" } },
      .finish = finish_mpt },
    { .architecture = "stablelm",
      .name = "StableLmForCausalLM",
      .eps_field = "layer_norm_eps",
      .is_partial = true,
      .presences = { { "use_qkv_bias", "attn_q.bias", false },
                     { "qk_layernorm", "attn_q_norm.weight", false },
                     { "use_parallel_residual", "ffn_norm.weight", true } } },
    { .architecture = "olmo",
      .name = "OlmoForCausalLM",
      .head_pairs = true,
      .fields = { { "attention.clamp_kqv", "clip_qkv", PF_GGUF_FIELD_NUMBER } } },
    { .architecture = "olmo2", .name = "Olmo2ForCausalLM", .eps_field = "rms_norm_eps" },
    { .architecture = "command-r",
      .name = "CohereForCausalLM",
      .eps_field = "layer_norm_eps",
      .fields = { { "logit_scale", "logit_scale", PF_GGUF_FIELD_NUMBER } },
      .presences = { { "use_qk_norm", "attn_q_norm.weight", false } } },
    { .architecture = "cohere2",
      .name = "Cohere2ForCausalLM",
      .eps_field = "layer_norm_eps",
      .has_windows = true,
      .fields = { { "logit_scale", "logit_scale", PF_GGUF_FIELD_NUMBER } } },
    { .architecture = "chatglm",
      .name = "GlmForCausalLM",
      .eps_field = "rms_norm_eps",
      .is_partial = true,
      .presences = { ATTENTION_BIAS } },
    { .architecture = "glm4",
      .name = "Glm4ForCausalLM",
      .eps_field = "rms_norm_eps",
      .is_partial = true,
      .presences = { ATTENTION_BIAS } },
};

const int32_t pf_gguf_n_architectures = sizeof pf_gguf_architectures / sizeof *pf_gguf_architectures;
